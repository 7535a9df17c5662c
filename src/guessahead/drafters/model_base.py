"""Options and base class of drafters with a second engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from guessahead.drafters.base import Drafter
from guessahead.errors import ParameterError, StateError

if TYPE_CHECKING:
    from guessahead.drafters.base import DrafterResources
    from guessahead.protocols import Engine, SequenceState
    from guessahead.types import ChoiceContext

PRECISIONS: Final = {"q4": "Q4_1", "q8": "Q8_0"}


@dataclass(frozen=True, slots=True)
class DraftingOptions:
    """siblings: next-best tokens added beside each guess, 0 to 4. They make the chain a tree, and cost rows
        of the target's pass, but no time of the draft model.

    min_probability: stop after a guess whose probability in the draft model is below this, in [0, 1); 0 = the
        controller decides when to stop.
    """

    siblings: int = 1
    min_probability: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.siblings <= 4:
            raise ParameterError(f"siblings must be from 0 to 4, not {self.siblings}")
        if not 0.0 <= self.min_probability < 1.0:
            raise ParameterError(
                f"min_probability must be at least 0 and below 1, not {self.min_probability}"
            )


@dataclass(frozen=True, slots=True)
class DraftModelOptions(DraftingOptions):
    """precision: convert the draft model to "q4" or "q8"; the copy is made once and kept in the user cache.
    "" = use it as it is stored.
    """

    precision: str = ""

    def __post_init__(self) -> None:
        DraftingOptions.__post_init__(self)
        if self.precision and self.precision not in PRECISIONS:
            raise ParameterError(f"precision must be {' or '.join(PRECISIONS)}, not {self.precision!r}")


class ModelDrafter(Drafter):
    """A drafter with a second engine, whose cache it owns while a generation runs."""

    name: ClassVar[str] = "draft-model"
    Options: ClassVar[type] = DraftModelOptions
    needs_draft_engine: ClassVar[bool] = True
    takes_draft_engine: ClassVar[bool] = True
    pays_per_guess: ClassVar[bool] = True

    def __init__(self, options: DraftModelOptions, resources: DrafterResources) -> None:
        if resources.draft_engine is None:
            raise ParameterError(f"drafter {self.name!r} needs a second model")
        self._use(options, resources, _at_precision(options.precision, resources, resources.draft_engine))

    def _use(self, options: DraftingOptions, resources: DrafterResources, engine: Engine) -> None:
        self._options = options
        self._engine = engine
        self._sequence: SequenceState | None = None
        self._guesses: list[int] = []  # of the last draft
        ratio = engine.info.bytes_per_pass / max(resources.engine.info.bytes_per_pass, 1)
        self.relative_cost = min(ratio, 2.0)

    def begin(self, context: ChoiceContext) -> None:
        self._sequence = self._engine.new_sequence()

    def end(self) -> None:
        if self._sequence is not None:
            self._sequence.close()
            self._sequence = None

    def _cache(self) -> SequenceState:
        if self._sequence is None:
            raise StateError("propose was called outside begin ... end")
        return self._sequence


def _at_precision(precision: str, resources: DrafterResources, engine: Engine) -> Engine:
    if not precision:
        return engine
    if resources.draft_at_precision is None:
        raise ParameterError("precision needs a draft model that was loaded from a GGUF file")
    return resources.draft_at_precision(PRECISIONS[precision])

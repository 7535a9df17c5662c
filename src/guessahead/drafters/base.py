"""What a drafter is: one file, one class, one options dataclass, registered by name.

The loop never asks what kind of drafter it has. A drafter declares what it needs and answers `propose`;
whatever it proposes, the text that comes out is the target's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from guessahead.types import Choice, Draft, Int32, Verdict

if TYPE_CHECKING:
    from guessahead.engines.base import Engine


@dataclass(frozen=True, slots=True)
class Setup:
    """What a drafter may use. engine: the target; draft_engine: a second model, if given."""

    engine: Engine
    draft_engine: Engine | None = None


@dataclass(frozen=True, slots=True)
class NoOptions:
    """The options of a drafter that has none."""


class Drafter:
    """Base class. One instance serves one running sequence; weights and indices may be shared between them.

    Options: a frozen dataclass with the drafter's settings (int, float, bool or str); it checks their ranges
        itself and raises ParameterError. The registry builds it from `-o NAME=VALUE`.
    needs_hidden: layers whose hidden states every pass must capture; usually none.
    needs_draft_engine: a second model must be loaded.
    """

    name: ClassVar[str]
    Options: ClassVar[type] = NoOptions
    needs_hidden: tuple[int, ...] = ()
    needs_draft_engine: ClassVar[bool] = False

    def __init__(self, options: Any, setup: Setup) -> None:
        """options: an instance of Options. Nothing is allocated before `begin`."""

    def begin(self, prompt_ids: Int32, choice: Choice) -> None:
        """A generation starts. choice: parameters (with the resolved seed) and history == prompt_ids."""

    def propose(self, choice: Choice, budget: int) -> Draft:
        """Guess at most `budget` tokens after choice.history (all committed tokens, the last one pending)."""
        raise NotImplementedError

    def observe(self, verdict: Verdict) -> None:
        """What the target made of the draft, cut where the text ended; its token_ids are committed now."""

    def end(self) -> None:
        """The generation is over, finished or abandoned; release what is held. Called once."""

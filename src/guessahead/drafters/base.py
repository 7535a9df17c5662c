"""The base class of drafters: one file, one class, one options dataclass for each, registered by name.

A drafter declares its requirements and implements `propose`; its guesses never change the target's text. It
is called in this order: begin, then propose and observe in every step, then end.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from guessahead.errors import ModelWarning, ParameterError
from guessahead.types import NO_DRAFT

if TYPE_CHECKING:
    from guessahead.protocols import DraftHead, Engine
    from guessahead.text.tokenizer import Tokenizer
    from guessahead.types import Ask, ChoiceContext, Draft, HiddenStates, Verdict

# Lower edges of the buckets of stated probabilities. Finer at the top, which decides over long chains.
EDGES: Final = (0.0, 0.15, 0.3, 0.45, 0.6, 0.7, 0.8, 0.87, 0.92, 0.96)

Prior = tuple[tuple[float, ...], tuple[float, ...]]
"""The share of right guesses, by bucket of the stated probability: for first guesses, and for later ones."""

_MIDDLES: Final = tuple((low + high) / 2 for low, high in zip(EDGES, (*EDGES[1:], 1.0), strict=True))
STATED_PRIOR: Final[Prior] = (_MIDDLES, _MIDDLES)
"""The prior of a drafter that states measured probabilities."""

# The share of right guesses of a new drafter. Published pairs of models lie between 0.55 and 0.9; with too
# low a start the drafter would never be called, and each call corrects the estimate.
MEAN_PRIOR: Final = 0.7


@dataclass(frozen=True, slots=True)
class DrafterResources:
    """The resources that a drafter may use.

    engine: the target; draft_engine: a second model, if given.
    tokenizer: the target's. draft_tokenizer: the second model's, if its ids differ.
    at_precision: makes an engine of the target's own weights in a smaller format ("Q4_1", "Q8_0").
    constrained: whether the requests have a grammar.
    draft_at_precision: the same for the second model; raises ParameterError if the copy would not be smaller.
    head: the draft head in a folder, "" = the one that belongs to the target; None if there is none.
    """

    engine: Engine
    draft_engine: Engine | None = None
    tokenizer: Tokenizer | None = None
    at_precision: Callable[[str], Engine] | None = None
    head: Callable[[str], DraftHead | None] | None = None
    draft_tokenizer: Tokenizer | None = None
    draft_at_precision: Callable[[str], Engine] | None = None
    constrained: bool = False


@dataclass(frozen=True, slots=True)
class NoOptions:
    """The empty options, for a drafter that has none."""


class Drafter:
    """Base class. Each running sequence has one instance; instances may share weights and indices.

    Options: a frozen dataclass with the drafter's settings (int, float, bool or str); it checks their ranges
        itself and raises ParameterError. The registry builds it from `-o NAME=VALUE`.
    needs_hidden: layers whose hidden states every pass must return for `observe`; usually none.
    needs_draft_engine: requires a second model. takes_draft_engine: can use one.
    needs_head: requires a draft head of the target.
    pays_per_guess: each guess takes the time of a pass, so the controller decides after each one whether to
        continue, through `Ask.stop`; other drafters return all their guesses, and the controller selects.
    prior: the share of right guesses by stated probability; None = unknown, to be learned step by step.
    mean_prior: the initial share of positions at which one of its guesses is right.
    relative_cost: the initial estimate of the time of one guess, over that of a one-row pass of the target.
    note: a description for users of the variant that these resources allow; "" = there is only one.
    gives_distributions: if `Ask.draws` is set, the drafter samples each guess with it, returns the
        distributions as `Draft.distributions`, makes the draft a chain, and keeps every sampled guess
        (core/rejection.py). Required of drafters with pays_per_guess; one that guesses by a rule from the
        committed tokens alone may ignore `draws`.
    has_given_up: see `give_up`.
    """

    name: ClassVar[str]
    Options: ClassVar[type] = NoOptions
    needs_hidden: tuple[int, ...] = ()
    needs_draft_engine: ClassVar[bool] = False
    needs_head: ClassVar[bool] = False
    takes_draft_engine: ClassVar[bool] = False
    pays_per_guess: ClassVar[bool] = False
    prior: ClassVar[Prior | None] = None
    mean_prior: ClassVar[float] = MEAN_PRIOR
    relative_cost: float = 0.0
    note: str = ""
    gives_distributions: ClassVar[bool] = False
    has_given_up: bool = False

    def __init__(self, options: Any, resources: DrafterResources) -> None:
        """options: an instance of Options. Nothing is allocated before `begin`."""

    @classmethod
    def make(cls, options: Any, resources: DrafterResources) -> Drafter:
        """Create an instance. A drafter with several variants selects one here."""
        return cls(options, resources)

    @property
    def members(self) -> tuple[Drafter, ...]:
        """The drafters that the controller calls: this one, or those it consists of."""
        return (self,)

    def lag(self, context: ChoiceContext) -> int:
        """The number of committed tokens that its model would have to read before the first guess."""
        return 0

    def begin(self, context: ChoiceContext) -> None:
        """Start a generation. context: parameters (with the resolved seed) and the prompt as history."""

    def propose(self, ask: Ask) -> Draft:
        """Guess at most `ask.budget` tokens after the committed ones."""
        raise NotImplementedError

    @classmethod
    def propose_many(cls, pairs: Sequence[tuple[Self, Ask]]) -> list[Draft]:
        """Drafts for several running sequences; a drafter with a model may compute them in one pass."""
        return [drafter.propose(ask) for drafter, ask in pairs]

    def observe(self, verdict: Verdict, hidden: HiddenStates | None) -> None:
        """Take the verdict on the draft, cut at the end of the text; its token_ids are now committed.

        hidden: of the positions that have just entered the target's cache, if `needs_hidden` lists layers.
        """

    def give_up(self, model: str) -> Draft:
        """Warn, once, that this drafter's model computes numbers that are not finite; returns no guesses."""
        if not self.has_given_up:
            self.has_given_up = True
            what = f"{model} computes numbers that are not finite: drafter {self.name!r} makes no guesses"
            warnings.warn(what, ModelWarning, stacklevel=2)
        return NO_DRAFT

    def end(self) -> None:
        """End the generation, finished or abandoned, and release all resources. Called once."""


def check_sampling(drafter: Drafter) -> None:
    """Raise ParameterError if the drafter uses a model and cannot return the distributions of its guesses."""
    for each in (drafter, *drafter.members):
        if each.pays_per_guess and not each.gives_distributions:
            way = f" ({each.note})" if each.note else ""
            raise ParameterError(
                f"drafter {each.name!r}{way} does not sample its guesses from a known distribution, as "
                "acceptance 'rejection' requires: use acceptance 'identical' or another drafter"
            )


def is_sampled(drafter: Drafter) -> bool:
    """Whether guesses are sampled and then judged by rejection sampling, so that the text may differ."""
    return any(each.gives_distributions for each in (drafter, *drafter.members))

"""What a drafter is: one file, one class, one options dataclass, registered by name.

A drafter declares what it needs and answers `propose`; whatever it proposes, the text that comes out is the
target's own. Its life has four calls: begin, propose, observe, end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from guessahead.errors import ParameterError

if TYPE_CHECKING:
    from guessahead.protocols import DraftHead, Engine
    from guessahead.text.tokenizer import Tokenizer
    from guessahead.types import Ask, ChoiceContext, Draft, HiddenStates, Verdict

# Probabilities that a drafter states are counted in buckets: their lower edges. Finer at the top, where long
# chains are won or lost.
EDGES: Final = (0.0, 0.15, 0.3, 0.45, 0.6, 0.7, 0.8, 0.87, 0.92, 0.96)

Prior = tuple[tuple[float, ...], tuple[float, ...]]
"""How often a guess is right, by bucket of the stated probability: for first guesses, and for later ones."""

_MIDDLES: Final = tuple((low + high) / 2 for low, high in zip(EDGES, (*EDGES[1:], 1.0), strict=True))
STATED_PRIOR: Final[Prior] = (_MIDDLES, _MIDDLES)
"""The prior of a drafter whose stated probability is a measured one."""

# How often the guesses of a drafter that was never seen are right. Published pairs of models lie between 0.55
# and 0.9; too low a start would never ask, and asking corrects itself.
MEAN_PRIOR: Final = 0.7


@dataclass(frozen=True, slots=True)
class DrafterResources:
    """What a drafter may use.

    engine: the target; draft_engine: a second model, if given.
    tokenizer: the target's. draft_tokenizer: the second model's, if its ids mean something else.
    at_precision: makes an engine of the target's own weights in a smaller format ("Q4_1", "Q8_0").
    draft_at_precision: the same of the second model; raises ParameterError where it would not be smaller.
    head: the draft head in a folder, "" = the one that belongs to the target; None where there is none.
    """

    engine: Engine
    draft_engine: Engine | None = None
    tokenizer: Tokenizer | None = None
    at_precision: Callable[[str], Engine] | None = None
    head: Callable[[str], DraftHead | None] | None = None
    draft_tokenizer: Tokenizer | None = None
    draft_at_precision: Callable[[str], Engine] | None = None


@dataclass(frozen=True, slots=True)
class NoOptions:
    """The options of a drafter that has none."""


class Drafter:
    """Base class. One instance serves one running sequence; weights and indices may be shared between them.

    Options: a frozen dataclass with the drafter's settings (int, float, bool or str); it checks their ranges
        itself and raises ParameterError. The registry builds it from `-o NAME=VALUE`.
    needs_hidden: layers whose hidden states every pass must capture for `observe`; usually none.
    needs_draft_engine: a second model must be loaded. takes_draft_engine: it can use one.
    needs_head: the target must have a draft head.
    pays_per_guess: each guess takes time of its own (a model's pass), so the controller decides before and
        after each one, through `Ask.stop`; other drafters are asked for all they know, and that is cut.
    prior: what its stated probabilities are worth; None = unknown, and then it is trusted step by step.
    mean_prior: how often one of its guesses for a position is right, before it has guessed.
    relative_cost: a first guess of the time of one guess, over a one-row pass of the target.
    note: a word to people about the way it works with these resources; "" = there is only one way.
    gives_distributions: where `Ask.draws` is set, it samples each guess with it, hands out the distributions
        as `Draft.distributions`, makes the draft a chain, and keeps what was sampled whatever it is
        (core/rejection.py). Required of drafters that pay per guess; one that guesses by a rule, from the
        committed tokens alone, may ignore `draws`.
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

    def __init__(self, options: Any, resources: DrafterResources) -> None:
        """options: an instance of Options. Nothing is allocated before `begin`."""

    @classmethod
    def make(cls, options: Any, resources: DrafterResources) -> Drafter:
        """An instance. A drafter that comes in several kinds picks one here."""
        return cls(options, resources)

    @property
    def members(self) -> tuple[Drafter, ...]:
        """The drafters that the controller asks: itself, or those it consists of."""
        return (self,)

    def lag(self, context: ChoiceContext) -> int:
        """How many committed tokens it would have to read with a model before its first guess."""
        return 0

    def begin(self, context: ChoiceContext) -> None:
        """A generation starts. context: parameters (with the resolved seed) and the prompt as history."""

    def propose(self, ask: Ask) -> Draft:
        """Guess at most `ask.budget` tokens after the committed ones."""
        raise NotImplementedError

    @classmethod
    def propose_many(cls, pairs: Sequence[tuple[Self, Ask]]) -> list[Draft]:
        """The drafts of several running sequences; a drafter with a model may run them in one pass."""
        return [drafter.propose(ask) for drafter, ask in pairs]

    def observe(self, verdict: Verdict, hidden: HiddenStates | None) -> None:
        """What the target made of the draft, cut where the text ended; its token_ids are committed now.

        hidden: of the positions that have just entered the target's cache, if `needs_hidden` names layers.
        """

    def end(self) -> None:
        """The generation is over, finished or abandoned; release what is held. Called once."""


def check_sampling(drafter: Drafter) -> None:
    """Raises ParameterError for a model that guesses and cannot say from which distribution."""
    for each in (drafter, *drafter.members):
        if each.pays_per_guess and not each.gives_distributions:
            way = f" ({each.note})" if each.note else ""
            raise ParameterError(
                f"drafter {each.name!r}{way} does not sample its guesses from a known distribution, which "
                "acceptance 'rejection' needs: take acceptance 'identical' or another drafter"
            )


def is_sampled(drafter: Drafter) -> bool:
    """Whether guesses are sampled, so that the text is not plain decoding's; others are left to `choose`."""
    return any(each.gives_distributions for each in (drafter, *drafter.members))

"""What a drafter is: one file, one class, one options dataclass, registered by name.

The loop never asks what kind of drafter it has. A drafter declares what it needs and answers `propose`;
whatever it proposes, the text that comes out is the target's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from guessahead.controller.probability import MEAN_PRIOR
from guessahead.types import Choice, Draft, Float32, Int32, Verdict

if TYPE_CHECKING:
    from guessahead.controller.probability import Prior
    from guessahead.core.rejection import Draws
    from guessahead.engines.base import Engine
    from guessahead.engines.native.head import NativeHead
    from guessahead.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Setup:
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
    head: Callable[[str], NativeHead | None] | None = None
    draft_tokenizer: Tokenizer | None = None
    draft_at_precision: Callable[[str], Engine] | None = None


class Gate(Protocol):
    """Says when another guess would cost more than it brings."""

    def more(self, confidence: float) -> bool:
        """Called after each guess with its confidence: is one more worth its time?"""


@dataclass(frozen=True, slots=True)
class NoOptions:
    """The options of a drafter that has none."""


class Drafter:
    """Base class. One instance serves one running sequence; weights and indices may be shared between them.

    Options: a frozen dataclass with the drafter's settings (int, float, bool or str); it checks their ranges
        itself and raises ParameterError. The registry builds it from `-o NAME=VALUE`.
    needs_hidden: layers whose hidden states every pass must capture for `read`; usually none.
    needs_draft_engine: a second model must be loaded. takes_draft_engine: it can use one.
    needs_head: the target must have a draft head.
    pays_per_guess: each guess takes time of its own (a model's pass), so the controller decides before and
        after each one, through `gate`; other drafters are asked for all they know, and that is cut.
    prior: what its confidence is worth, by bucket (see acceptance.py), for the first guess and for later
        ones; None = unknown, and then it is trusted step by step.
    mean_prior: how often one of its guesses for a position is right, before it has guessed.
    least_chance: set by the controller: a guess less likely than this (with all above it) cannot pay now.
    relative_cost: a first guess of the time of one guess, over a one-row pass of the target.
    note: a word to people about the way it works in this setup; "" = there is only one way.
    draws: set before `begin` where acceptance is "rejection": draw each guess with it, hand out the
        distributions as `Draft.dists`, make the draft a chain, and keep what was drawn whatever it is
        (rejection.py). A drafter that guesses by a rule, from the committed tokens alone, may ignore it.
    gives_dists: it does so. Required of drafters that pay per guess.
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
    gate: Gate | None = None
    least_chance: float = 0.0
    draws: Draws | None = None
    gives_dists: ClassVar[bool] = False

    def __init__(self, options: Any, setup: Setup) -> None:
        """options: an instance of Options. Nothing is allocated before `begin`."""

    @classmethod
    def make(cls, options: Any, setup: Setup) -> Drafter:
        """An instance. A drafter that comes in several kinds picks one here."""
        return cls(options, setup)

    @property
    def members(self) -> tuple[Drafter, ...]:
        """The drafters that the controller asks: itself, or those it consists of."""
        return (self,)

    def lag(self, choice: Choice) -> int:
        """How many committed tokens it would have to read with a model before its first guess."""
        return 0

    def begin(self, prompt_ids: Int32, choice: Choice) -> None:
        """A generation starts. choice: parameters (with the resolved seed) and history == prompt_ids."""

    def propose(self, choice: Choice, budget: int) -> Draft:
        """Guess at most `budget` tokens after choice.history (all committed tokens, the last one pending)."""
        raise NotImplementedError

    def read(self, first: int, hidden: Mapping[int, Float32]) -> None:
        """The target's hidden states of the positions that have just entered its cache, before `observe`.

        Only for a drafter with `needs_hidden`. first: position of the first of them. hidden: layer ->
        float32[n, width]; the last of the n is the position before the token that is pending now.
        """

    def observe(self, verdict: Verdict) -> None:
        """What the target made of the draft, cut where the text ended; its token_ids are committed now."""

    def end(self) -> None:
        """The generation is over, finished or abandoned; release what is held. Called once."""

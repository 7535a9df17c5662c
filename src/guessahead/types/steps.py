"""What one step passes between the layers: how to choose, questions to drafters, drafts, verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from guessahead.types.requests import EMPTY_IDS, Float32, Float64, Int32, Mask, SamplingParams


@dataclass(frozen=True, slots=True)
class ChoiceContext:
    """Everything that `choose` needs besides the logits: the chosen token is a pure function of both.

    params: with the resolved seed, if they sample.
    history: all committed tokens, prompt included. The choice after row r depends on history + the tokens on
        the path to r.
    prompt_length: how many tokens of history are the prompt (the rest is output).
    eos_ids: banned while fewer than params.min_tokens output tokens exist.
    stream: index of the noise stream: 0, or the number of the completion when several share a seed.
    constraint: the grammar that the output must follow; its committed tokens are a beginning of history.
    """

    params: SamplingParams
    history: Int32
    prompt_length: int
    eos_ids: tuple[int, ...] = ()
    stream: int = 0
    constraint: Constraint | None = None


class Constraint(Protocol):
    """The state of a grammar in one generation: which tokens may follow (grammar/constraint.py)."""

    @property
    def is_complete(self) -> bool:
        """Whether the committed text is complete, and nothing may follow it."""

    def mask(self, history: Int32, path: Sequence[int] | Int32 = ()) -> Mask:
        """The tokens that may follow the committed tokens and then guesses: uint32[words], read-only.

        history, path: all of them, prompt included. Empty after a guess that is not allowed, or that nothing
        can follow. Raises GrammarError if nothing can follow the committed tokens.
        """

    def admitted(self, draft: Draft) -> Draft:
        """The draft without the guesses that are not allowed. Of a sampled one, the first of them remains:
        it must be tested (core/rejection.py)."""

    def forced(self, limit: int) -> list[tuple[int, float]]:
        """At most `limit` tokens that the grammar forces after the committed ones, with the probability of
        each: the same text may be cut into tokens in other ways."""

    def commit(self, token_id: int) -> None:
        """Take in the next token. Raises StateError if it is not allowed."""


class Draws(Protocol):
    """Random numbers of one generation. Each (use, start, depth) has one, independent of all others.

    use: its purpose (core/rejection.py). start: tokens committed when the step began; depth: the guess of
    the draft, from 0. No two steps begin at the same length, so a dropped guess does not affect a later one.
    """

    def pick(self, use: int, weights: Float64, start: int, depth: int) -> int:
        """An index, with probability weights[index] / sum of weights."""

    def passes(self, use: int, probability: float, start: int, depth: int) -> bool:
        """True with this probability (above 1: always)."""


@dataclass(frozen=True, slots=True)
class StopRule:
    """The rule when a drafter that needs time for each guess stops, as data that native code can apply.

    After n guesses it continues while the path probability (that all n are right) is above
    least_path_probability[n]; at the end of that array it stops.
    calibration: the measured probability for each stated one: float[2][SIZE + 1], for the first guess and for
        later ones, by the stated probability in steps of 1 / SIZE. Empty = use the stated one.
    """

    least_path_probability: tuple[float, ...]
    calibration: tuple[tuple[float, ...], ...] = ()

    def calibrated(self, probability: float, depth: int) -> float:
        """The probability that a guess is right given that its parent is. depth: 0 = the next token."""
        if not self.calibration:
            return probability
        table = self.calibration[min(depth, len(self.calibration) - 1)]
        return table[int(min(max(probability, 0.0), 1.0) * (len(table) - 1))]

    def goes_on(self, path_probability: float, num_guesses: int) -> bool:
        """Whether to make another guess after `num_guesses` guesses."""
        least = self.least_path_probability
        return num_guesses < len(least) and path_probability > least[num_guesses]


@dataclass(frozen=True, slots=True)
class TreeShape:
    """The shape of a draft head's draft, and its probabilities under sampling.

    levels: most guesses one after the other. branches: children of a guess. width: guesses of a level that
    get children. least_sibling: a sibling less likely than this is left out. noise_trust: the weight of the
    target's noise, as the head's logits only resemble the target's.
    """

    levels: int
    branches: int
    width: int
    least_sibling: float
    noise_trust: float


@dataclass(frozen=True, slots=True)
class Ask:
    """A request to a drafter.

    context: the committed tokens, the last one pending, and how the target will choose.
    budget: maximum number of guesses, at least 1.
    stop: when to stop before the budget is reached; None = never.
    least_probability: a guess whose path probability is below this cannot pay now.
    draws: the random numbers with which each guess is sampled from its distribution; None = the drafter may
        guess by any rule (see core/rejection.py).
    """

    context: ChoiceContext
    budget: int
    stop: StopRule | None = None
    least_probability: float = 0.0
    draws: Draws | None = None


@dataclass(frozen=True, slots=True)
class Draft:
    """The guesses of a drafter after the last committed token.

    token_ids: n guessed tokens; n == 0 is legal and makes the step a plain step.
    parents: parent node of each node, -1 = the last committed token, parents[i] < i; None = a chain.
    probabilities: the drafter's estimate that a node is right given that its parent is (for the controller).
    origins: name of the drafter of each node, if several drafts were merged; None = the one that proposed.
    distributions: for each sampled guess, with acceptance "rejection" (core/rejection.py), the distribution q
        that it was sampled from, after all filters, float64[vocab or less]. Such a draft is a chain and is
        verified as a whole. None = the guesses were not sampled.
    expected: how many guesses are expected to be accepted, by whoever chose them; None = not estimated.
    """

    token_ids: Int32 = field(default_factory=lambda: EMPTY_IDS)
    parents: Int32 | None = None
    probabilities: Float32 | None = None
    origins: tuple[str, ...] | None = None
    distributions: tuple[Float64, ...] | None = None
    expected: float | None = None

    def __len__(self) -> int:
        return len(self.token_ids)


NO_DRAFT = Draft()
"""A draft without guesses."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of verifying a draft.

    path: the accepted nodes, root to leaf (indices into the draft).
    token_ids: the tokens of those nodes, then exactly one token chosen by the target: the correction of the
        first wrong guess, or the bonus if all were right. len(token_ids) == len(path) + 1.
    num_tested: how many guesses the target tested: the accepted ones, plus the first rejected one if a
        guess stood where the target chose something else. alpha = accepted / tested.
    """

    path: Int32
    token_ids: Int32
    num_tested: int


@dataclass(frozen=True, slots=True)
class HiddenStates:
    """The target's hidden states of positions that have just entered its cache.

    first: position of the first of them. layers: layer -> float32[n, width]; the last of the n is the
    position before the token that is pending now.
    """

    first: int
    layers: Mapping[int, Float32]

"""Values passed between the layers: requests, drafts, verdicts and results.

All of them are frozen. Token ids are int32 arrays; a tree is a list of parents, and a chain is a tree that
needs no list. docs/how-it-works.md describes one step in full.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from guessahead.core.stats import Stats

Int32 = npt.NDArray[np.int32]
Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]

EMPTY_IDS: Int32 = np.empty(0, np.int32)
EMPTY_IDS.setflags(write=False)

NOT_FINITE: Final = -2
"""In place of a chosen token: a logit is NaN or infinite, so there is no choice."""

# --- what is generated ---


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """The parameters with which `choose` turns logits into a token. The defaults are greedy decoding.

    temperature: 0 = greedy (anything below 1e-4 is treated as 0, so tiny values cannot overflow).
    top_k: keep the k most likely tokens; 0 = all.
    top_p: keep the smallest set of most likely tokens whose probability reaches top_p, in (0, 1].
    min_p: drop tokens less likely than min_p times the most likely one, in [0, 1].
    repetition_penalty: > 0; logits of tokens in prompt or output are divided (if positive) or multiplied
        by it.
    frequency_penalty, presence_penalty: subtracted per occurrence / once, for tokens of the output,
        in [-2, 2].
    logit_bias: token id -> value added to its logit; -inf (or -100 and below) bans the token.
    min_tokens: end-of-sequence tokens are banned until this many output tokens exist, and a stop string that
        is complete by then is text.
    seed: seed of the sampling noise; None = a fresh one for each generation.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    min_tokens: int = 0
    seed: int | None = None


Gamma = int | Literal["auto"]
"""Guesses per step: a number, or "auto" if the controller decides."""

Acceptance = Literal["identical", "rejection"]
"""Whether guesses keep the text of plain decoding, or only its distribution (core/rejection.py)."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request for one generation.

    prompt_ids: int32[n], n >= 1. params: without a seed, a fresh one is made. max_tokens: at least 1.
    gamma: guesses per step; "auto" = the controller decides, up to max_draft if given.
    stops: strings that end the generation.
    logprobs: number of alternatives to report per token; None = no log-probabilities.
    trace: keep a record of every step (core/trace.py).
    """

    prompt_ids: Int32
    params: SamplingParams
    max_tokens: int
    gamma: Gamma = "auto"
    max_draft: int | None = None
    stops: tuple[str, ...] = ()
    logprobs: int | None = None
    trace: bool = False
    acceptance: Acceptance = "identical"


@dataclass(frozen=True, slots=True)
class Chunk:
    """The output of one step. text: may lag behind the tokens (half a character, the start of a stop string).

    origins: for each token the name of the drafter that guessed it, or "target".
    """

    text: str
    token_ids: tuple[int, ...]
    origins: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """Log-probability of one emitted token under the model's unfiltered distribution (natural log)."""

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Generation:
    """A finished generation.

    finish_reason: "eos", "stop", "length" (max_tokens) or "context" (the model's context is full).
    token_ids: end with the token that ended the text (the EOS token, or the one that completed a stop
        string); `text` ends before it.
    """

    text: str
    token_ids: tuple[int, ...]
    finish_reason: str
    num_prompt_tokens: int
    seed: int
    stats: Stats
    logprobs: tuple[TokenLogprob, ...] | None = None
    trace: Mapping[str, Any] | None = None


# --- one step: propose, verify ---


@dataclass(frozen=True, slots=True)
class ChoiceContext:
    """Everything that `choose` needs besides the logits: the chosen token is a pure function of both.

    params: with the resolved seed, if they sample.
    history: all committed tokens, prompt included. The choice after row r depends on history + the tokens on
        the path to r.
    prompt_length: how many tokens of history are the prompt (the rest is output).
    eos_ids: banned while fewer than params.min_tokens output tokens exist.
    stream: index of the noise stream: 0, or the number of the completion when several share a seed.
    """

    params: SamplingParams
    history: Int32
    prompt_length: int
    eos_ids: tuple[int, ...] = ()
    stream: int = 0


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

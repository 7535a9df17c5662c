"""The values that travel between the loop, the drafters and the engines.

All of them are frozen. Token ids are int32 arrays; a tree is a list of parents, and a chain is a tree
that needs no list. See docs/how-it-works.md for one step told in full.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from guessahead.core.stats import Stats

Int32 = npt.NDArray[np.int32]
Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]

EMPTY_IDS: Int32 = np.empty(0, np.int32)
EMPTY_IDS.setflags(write=False)


@dataclass(frozen=True, slots=True)
class Draft:
    """What a drafter proposes after the last committed token.

    token_ids: n guessed tokens; n == 0 is legal and makes the step a plain step.
    parents: parent node of each node, -1 = the last committed token, parents[i] < i; None = a chain.
    confidence: the drafter's estimate that a node is right given that its parent is (for the controller).
    origins: name of the drafter that guessed each node, where several were merged; None = the one that
        proposed.
    dists: of guesses that were drawn by chance, for acceptance="rejection" (rejection.py): for each the
        distribution q that it was drawn from, after all filters, float64[vocab or less]. Such a draft is a
        chain, and is verified whole. None = guesses that were not drawn.
    """

    token_ids: Int32 = field(default_factory=lambda: EMPTY_IDS)
    parents: Int32 | None = None
    confidence: Float32 | None = None
    origins: tuple[str, ...] | None = None
    dists: tuple[Float64, ...] | None = None

    def __len__(self) -> int:
        return len(self.token_ids)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the target made of a draft.

    path: the accepted nodes, root to leaf (indices into the draft).
    token_ids: the tokens of those nodes, then exactly one token chosen by the target: the correction
        where the draft went wrong, or the bonus where all of it was right. len(token_ids) == len(path) + 1.
    num_tested: how many guesses the target tested: the accepted ones, plus the first rejected one if a
        guess stood where the target chose something else. alpha = accepted / tested.
    """

    path: Int32
    token_ids: Int32
    num_tested: int


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How `choose` turns logits into a token. The defaults are greedy decoding.

    temperature: 0 = greedy (anything below 1e-4 is treated as 0, so tiny values cannot overflow).
    top_k: keep the k most likely tokens; 0 = all.
    top_p: keep the smallest most likely set whose probability reaches top_p, in (0, 1].
    min_p: drop tokens less likely than min_p times the most likely one, in [0, 1].
    repetition_penalty: > 0; logits of tokens in prompt or output are divided (if positive) or multiplied
        by it.
    frequency_penalty, presence_penalty: subtracted per occurrence / once, for tokens of the output,
        in [-2, 2].
    logit_bias: token id -> value added to its logit; -inf (or -100 and below) bans the token.
    min_tokens: end-of-sequence tokens are banned until this many output tokens exist.
    seed: of the sampling noise; None = a fresh one for each generation.
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


@dataclass(frozen=True, slots=True)
class Choice:
    """All that `choose` needs beside the logits: it is a pure function of both.

    history: the committed tokens, prompt included, up to and with the last one. The token chosen after
        row r sees history + the tokens on the path to r.
    prompt_length: how many tokens of history are the prompt (the rest is output).
    eos_ids: banned while fewer than params.min_tokens output tokens exist.
    stream: index of the noise stream: 0, or the number of the completion when several share a seed.
    forced: tokens to take after history before anything is chosen: a pass then shows the logits along them.
    """

    params: SamplingParams
    history: Int32
    prompt_length: int
    eos_ids: tuple[int, ...] = ()
    stream: int = 0
    forced: Int32 = field(default_factory=lambda: EMPTY_IDS)


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

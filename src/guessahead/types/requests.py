"""Arrays of token ids, and what is asked for and generated: parameters, requests, results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from guessahead.core.stats import Stats

Int32 = npt.NDArray[np.int32]
Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Mask = npt.NDArray[np.uint32]
"""A set of tokens, packed: bit t % 32 of word t // 32 stands for token t."""

EMPTY_IDS: Int32 = np.empty(0, np.int32)
EMPTY_IDS.setflags(write=False)

NOT_FINITE: Final = -2
"""In place of a chosen token: a logit is NaN or infinite, so there is no choice."""
NOT_ALLOWED: Final = -3
"""In place of a chosen token: the constraint allows no token that is not banned."""


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


GrammarKind = Literal["json_schema", "regex", "lark", "choice"]


@dataclass(frozen=True, slots=True)
class Grammar:
    """What the generated text must be.

    kind, source: "json_schema": JSON that fits this schema (a JSON text). "regex": a text that this regular
        expression matches as a whole. "lark": a text of this grammar, in the notation of Lark. "choice": one
        of these texts (a JSON list).
    """

    kind: GrammarKind
    source: str


@dataclass(frozen=True, slots=True)
class Request:
    """A request for one generation.

    prompt_ids: int32[n], n >= 1. params: without a seed, a fresh one is made. max_tokens: at least 1.
    gamma: guesses per step; "auto" = the controller decides, up to max_draft if given.
    stops: strings that end the generation.
    logprobs: number of alternatives to report per token; None = no log-probabilities.
    trace: keep a record of every step (core/trace.py).
    grammar: the text must follow it; None = any text.
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
    grammar: Grammar | None = None


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
    """Log-probability of one emitted token under the model's unfiltered distribution (natural log).

    With a grammar: under the distribution over the tokens that it allows.
    """

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Generation:
    """A finished generation.

    finish_reason: "eos", "stop" (a stop string, or the grammar is complete), "length" (max_tokens) or
        "context" (the model's context is full).
    token_ids: end with the token that ended the text (the EOS token, or the one that completed a stop
        string); `text` ends before it.
    parser: makes the object of the text, for `parsed`.
    """

    text: str
    token_ids: tuple[int, ...]
    finish_reason: str
    num_prompt_tokens: int
    seed: int
    stats: Stats
    logprobs: tuple[TokenLogprob, ...] | None = None
    trace: Mapping[str, Any] | None = None
    parser: Callable[[str], Any] | None = field(default=None, repr=False, compare=False)

    @property
    def parsed(self) -> Any:
        """The object that the text stands for, if a schema was given; None if the text was cut short.

        Raises what the schema's own checks raise (a ValidationError of Pydantic, ValueError of a dataclass).
        """
        if self.parser is None or self.finish_reason in ("length", "context"):
            return None
        return self.parser(self.text)

"""`choose`: one token from a row of logits, and the allowed ranges of its parameters.

The rule is a pure function of the logits and of a `ChoiceContext`, so verification applies it along a drafted
path and finds exactly what plain decoding would have chosen. This file is its definition; native/choose skips
work, but returns the same token for every row. All arithmetic is float64 (IEEE 754, round to nearest even),
each operation is rounded by itself, and `exp` and `log` are those of exact_math.py.

History H = context.history + path; output = H[prompt_length:]; position = len(H), the index of the new token.
Ids outside the row (in history, biases or eos_ids) are ignored.

0. If a logit is not finite (NaN, inf or -inf), there is no choice: the answer is NOT_FINITE, which is -2.
1. Adjusted logits l. Start from the logit; tokens that context.constraint refuses are banned (-inf). In this
   order: if the token is in H, l / r where l > 0, else l * r
   (r: repetition_penalty); l - (frequency_penalty * n + presence_penalty), if it occurs n > 0 times in the
   output; l + bias; at most 1e300. Banned (-inf): a bias <= -100, and EOS ids while len(output) < min_tokens.
   If every l is -inf, the answer is the lowest id that is not banned, and id 0 if all are; under a constraint
   it is NOT_ALLOWED, which is -3.
2. Greedy (temperature < 1e-4, or top_k == 1): the largest l; of equal ones the lowest id.
3. Otherwise, with m the largest l, d = (l - m) * (1 / temperature). The *order* is l descending, then id
   ascending; tokens with l = -inf are left out. Each filter keeps a prefix of what is left:
   top_k:  the first k (0 = all).
   top_p:  weights W = rint(exp(d) * 2**40) are integers, so their sums are exact in any order. The shortest
           prefix with float64(sum of its W) >= top_p * float64(sum of all W left) (1 = all).
   min_p:  tokens with d >= log(min_p) (0 = all).
   Of these the token with the largest d + noise; of equal ones the lowest id.
4. noise = -log(-log(u)), a Gumbel variable: the arg max is then distributed as the filtered softmax.
   u = (2 * (h >> 12) + 1) * 2**-53 is exact and in the open interval (0, 1). (With (h >> 11) + 1/2, one in
   2**54 would round to 1.) h is a hash of seed, stream, position and token, in integers mod 2**64:
     G = 0x9E3779B97F4A7C15
     mix(x):  x ^= x >> 30;  x *= 0xBF58476D1CE4E5B9;  x ^= x >> 27;  x *= 0x94D049BB133111EB;  x ^= x >> 31
     a = mix(mix(mix(seed + G) + (stream + 1) * G) + (position + 1) * G)
     k0 = mix(a + G);  k1 = mix(a + 2 * G)
     h(token) = mix(k0 + (token + 1) * G), with x ^= k1 after the first multiplication
   (the finaliser of splitmix64: Steele, Lea, Flood 2014, in the variant 13 of Stafford; the second key makes
   the sequences of different positions unrelated, not shifts of each other).

The Gumbel trick: Maddison, Tarlow, Minka 2014. One noise for draft and target: Daliri, Musco, Suresh 2024.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from guessahead.core.exact_math import MASK, exp, log, uniforms
from guessahead.errors import ParameterError, StateError
from guessahead.types import (
    NOT_ALLOWED,
    NOT_FINITE,
    ChoiceContext,
    Float32,
    Float64,
    Int32,
    Mask,
    SamplingParams,
    TokenLogprob,
)

Int64 = npt.NDArray[np.int64]

GREEDY_BELOW = 1e-4
BANNED_BIAS = -100.0
WEIGHT_BITS = 40
MAX_LOGIT = 1e300


_WEIGHTLESS = 30.0  # exp(-30) * 2**WEIGHT_BITS rounds to 0: top_p never needs such a token


def validate(params: SamplingParams, vocab_size: int) -> None:
    """Raise ParameterError, one line with parameter, value and range, if a parameter is out of range."""
    _number("temperature", params.temperature, 0.0, 100.0)
    _integer("top_k", params.top_k, 0, 2**31 - 1)
    _number("top_p", params.top_p, 0.0, 1.0, above_low=True)
    _number("min_p", params.min_p, 0.0, 1.0)
    _number("repetition_penalty", params.repetition_penalty, 0.0, 100.0, above_low=True)
    _number("frequency_penalty", params.frequency_penalty, -2.0, 2.0)
    _number("presence_penalty", params.presence_penalty, -2.0, 2.0)
    _integer("min_tokens", params.min_tokens, 0, 2**31 - 1)
    if params.seed is not None:
        _integer("seed", params.seed, 0, MASK)
    for token_id, bias in params.logit_bias.items():
        _integer("logit_bias token id", token_id, 0, vocab_size - 1)
        _number(f"logit_bias of token {token_id}", bias, -math.inf, 100.0)


def is_greedy(params: SamplingParams) -> bool:
    """Whether the choice is the plain arg max, which needs neither noise nor seed."""
    return params.temperature < GREEDY_BELOW or params.top_k == 1


def choose(logits_row: Float32, context: ChoiceContext, path: Sequence[int] | Int32 = ()) -> int:
    """The token after context.history + path, given its logits, float32[vocab] (see the module docstring).

    Raises ParameterError for an empty row, StateError if the choice samples and its seed is not resolved.
    """
    if len(logits_row) == 0:
        raise ParameterError("choose: the row of logits is empty; it needs one value per token")
    return _choose(logits_row, context, path) if np.isfinite(logits_row).all() else NOT_FINITE


def _choose(logits_row: Float32, context: ChoiceContext, path: Sequence[int] | Int32) -> int:
    """Steps 1 to 4."""
    history = np.concatenate([context.history, np.asarray(path, np.int32)])
    logits, banned = _adjusted(logits_row, context, history)
    if is_greedy(context.params):
        best = int(np.argmax(logits))
        return best if logits[best] > -np.inf else _without_any(context, banned)
    order = np.argsort(-logits, kind="stable")
    order = order[logits[order] > -np.inf]
    if len(order) == 0:
        return _without_any(context, banned)
    kept, distance = _filtered(logits, order, context.params)
    score = distance + gumbel_noise(resolved_seed(context), context.stream, len(history), kept)
    return int(kept[score == score.max()].min())


def _without_any(context: ChoiceContext, banned: npt.NDArray[np.bool_]) -> int:
    """The answer if every adjusted logit is -inf."""
    return int(np.argmin(banned)) if context.constraint is None else NOT_ALLOWED


def is_allowed(mask: Mask, vocab_size: int) -> npt.NDArray[np.bool_]:
    """bool[vocab]: the packed set, by token; ids behind its end are not allowed."""
    bits = np.unpackbits(mask.view(np.uint8), count=vocab_size, bitorder="little")
    return bits.astype(np.bool_)


def probabilities(logits_row: Float32, context: ChoiceContext, path: Sequence[int] | Int32 = ()) -> Float64:
    """float64[vocab]: the probability of each token over all seeds of `choose`; greedy: 1 for one token.

    logits_row: finite, or -inf for tokens that a drafter's model lacks. All 0 if a constraint allows none.
    """
    history = np.concatenate([context.history, np.asarray(path, np.int32)])
    logits, _ = _adjusted(logits_row, context, history)
    result = np.zeros(len(logits_row), np.float64)
    highest = logits.max()
    if context.constraint is not None and highest == -np.inf:
        return result
    if is_greedy(context.params) or highest == -np.inf:
        result[_choose(logits_row, context, path)] = 1.0
        return result
    order = _in_order(logits, highest, context.params)
    kept, distance = _filtered(logits, order, context.params)
    weights = np.exp(distance)
    result[kept] = weights / weights.sum()
    return result


def token_logprob(logits: Float32, token_id: int, num_top: int, mask: Mask | None = None) -> TokenLogprob:
    """The log-probability of `token_id` under softmax(logits), and the `num_top` most likely tokens.

    logits: float32[vocab], raw: before penalties, filters and temperature. mask: the tokens that are allowed;
    None = all. Computed in float64 (natural log); equal alternatives are ordered by token id.
    """
    wide = logits.astype(np.float64)
    if mask is not None:
        allowed = is_allowed(mask, len(wide))
        wide[~allowed] = -np.inf
        num_top = min(num_top, int(allowed.sum()))
    top = float(wide.max())
    log_total = top + float(np.log(np.exp(wide - top).sum()))
    best = np.argsort(-wide, kind="stable")[:num_top] if num_top else ()
    return TokenLogprob(
        token_id=token_id,
        logprob=float(wide[token_id]) - log_total,
        top=tuple((int(other), float(wide[other]) - log_total) for other in best),
    )


def gumbel_noise(seed: int, stream: int, position: int, token_ids: npt.ArrayLike) -> Float64:
    """Standard Gumbel noise, float64[n], of n tokens at one position: what `choose` adds to their logits."""
    return -log(-log(uniforms(seed, stream, position, token_ids)))


def softmax_weights(distance: Float64) -> Int64:
    """The integer weights W of step 3 for distances d <= 0, int64[n]: 2**40 for the most likely token."""
    return np.rint(np.ldexp(exp(distance), WEIGHT_BITS)).astype(np.int64)


def resolved_seed(context: ChoiceContext) -> int:
    """The seed of a choice that samples. Raises StateError if it is not resolved yet."""
    if context.params.seed is None:
        raise StateError("choose: params.seed is None; set a seed before the first token is chosen")
    return context.params.seed


def _adjusted(row: Float32, context: ChoiceContext, history: Int32) -> tuple[Float64, npt.NDArray[np.bool_]]:
    """Step 1: the adjusted logits, float64[vocab], and which tokens are banned."""
    params, vocab_size = context.params, len(row)
    logits = row.astype(np.float64)
    output = history[context.prompt_length :]
    seen = np.unique(_inside(history, vocab_size))
    value = logits[seen]
    with np.errstate(over="ignore"):  # a tiny penalty may give inf, which is clipped to MAX_LOGIT
        value = np.where(value > 0.0, value / params.repetition_penalty, value * params.repetition_penalty)
    count = np.bincount(_inside(output, vocab_size), minlength=vocab_size)[seen]
    penalty = params.frequency_penalty * count + params.presence_penalty
    logits[seen] = np.where(count > 0, value - penalty, value)

    banned = np.zeros(vocab_size, np.bool_)
    for token_id, bias in params.logit_bias.items():
        if 0 <= token_id < vocab_size:
            banned[token_id] = bias <= BANNED_BIAS
            logits[token_id] += 0.0 if bias <= BANNED_BIAS else bias
    if len(output) < params.min_tokens:
        banned[_inside(np.array(context.eos_ids, np.int64), vocab_size)] = True
    if context.constraint is not None:
        banned |= ~is_allowed(context.constraint.mask(history), vocab_size)
    logits[banned] = -np.inf
    return np.minimum(logits, MAX_LOGIT), banned


def _in_order(logits: Float64, highest: np.float64, params: SamplingParams) -> Int64:
    """The ids that may pass the filters, in order where top_k or top_p looks at the order."""
    if params.top_k > 0:
        kth = max(len(logits) - params.top_k, 0)
        least = max(np.partition(logits, kth)[kth], np.finfo(np.float64).min)
    elif params.top_p < 1.0:
        least = highest - _WEIGHTLESS * params.temperature
    else:
        return np.flatnonzero(logits > -np.inf)
    near = np.flatnonzero(logits >= least)
    order: Int64 = near[np.argsort(-logits[near], kind="stable")]
    return order


def _filtered(logits: Float64, order: Int64, params: SamplingParams) -> tuple[Int64, Float64]:
    """Step 3: the ids that top-k, top-p and min-p keep, in order, and their distances d."""
    kept = order[: params.top_k] if params.top_k > 0 else order
    distance = (logits[kept] - logits[kept].max()) * (1.0 / params.temperature)
    if params.top_p < 1.0:
        weights = softmax_weights(distance)
        reached = np.cumsum(weights).astype(np.float64) >= params.top_p * float(weights.sum())
        length = int(np.argmax(reached)) + 1
        kept, distance = kept[:length], distance[:length]
    if params.min_p > 0.0:
        likely = distance >= log(np.array(params.min_p))
        kept, distance = kept[likely], distance[likely]
    return kept, distance


def _inside(ids: npt.NDArray[np.signedinteger], vocab_size: int) -> npt.NDArray[np.signedinteger]:
    return ids[(ids >= 0) & (ids < vocab_size)]


def _number(name: str, value: float, low: float, high: float, *, above_low: bool = False) -> None:
    allowed = f"{'above' if above_low else 'at least'} {low:g} and at most {high:g}"
    if isinstance(value, bool) or not isinstance(value, int | float | np.floating | np.integer):
        raise ParameterError(f"{name} is {value!r}; it must be a number {allowed}")
    if not low <= value <= high or (above_low and value == low):  # NaN fails the first comparison
        raise ParameterError(f"{name} is {value!r}; it must be a number {allowed}")


def _integer(name: str, value: int, low: int, high: int) -> None:
    integral = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not integral or not low <= value <= high:
        raise ParameterError(f"{name} is {value!r}; it must be a whole number from {low} to {high}")

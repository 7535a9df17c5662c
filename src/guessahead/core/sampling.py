"""`choose`: from a row of logits to one token. The parameters' ranges, and the plain twin of the native rule.

The rule is a pure function of the logits and of a `Choice`, so verification applies it along a drafted path
and finds exactly what plain decoding would have chosen. This file is its definition: native/choose/
skips work, but yields the same token for every row, to the bit. All arithmetic is float64 (IEEE 754, round
to nearest even), each operation is rounded by itself, and `exp` and `log` are the two functions below.

History H = choice.history + path; output = H[prompt_length:]; position = len(H), the index of the new token.
Ids outside the row (in history, biases or eos_ids) are ignored.

1. Adjusted logits l. Start from the logit; NaN counts as -inf, +inf as the largest float32.
   In this order: if the token is in H, l / r where l > 0, else l * r (r: repetition_penalty);
   l - (frequency_penalty * n + presence_penalty), if it occurs n > 0 times in the output;
   l + bias; at most 1e300. Banned (-inf): a bias <= -100, and EOS ids while len(output) < min_tokens.
   If every l is -inf, the answer is the lowest id that is not banned, and id 0 if all are.
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

Where choice.forced holds tokens, they are taken first, whatever the logits say: so a pass can be led along a
path (rejection.py).

The Gumbel trick: Maddison, Tarlow, Minka 2014. One noise for draft and target: Daliri, Musco, Suresh 2024.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from guessahead.errors import ParameterError, StateError
from guessahead.types import EMPTY_IDS, Choice, Float32, Float64, Int32, SamplingParams

Int64 = npt.NDArray[np.int64]
UInt64 = npt.NDArray[np.uint64]

GREEDY_BELOW = 1e-4
BANNED_BIAS = -100.0
WEIGHT_BITS = 40
MAX_LOGIT = 1e300

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_MIX_1 = 0xBF58476D1CE4E5B9
_MIX_2 = 0x94D049BB133111EB

_WEIGHTLESS = 30.0  # exp(-30) * 2**WEIGHT_BITS rounds to 0: top_p never needs such a token

_LOG2_E = 1.4426950408889634
_LN2_HIGH = float.fromhex("0x1.62e42feep-1")  # 32 leading bits: n * _LN2_HIGH is exact for the n in use
_LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
_SQRT_HALF = 0.7071067811865476
_EXP_MIN = -700.0
_EXP_TERMS = [1.0 / math.factorial(n) for n in range(12)]
_LOG_TERMS = [1.0 / (2 * n + 1) for n in range(10)]


def validate(params: SamplingParams, vocab_size: int) -> None:
    """Raise ParameterError, one line that names parameter, value and range, if anything is out of range."""
    _number("temperature", params.temperature, 0.0, 100.0)
    _integer("top_k", params.top_k, 0, 2**31 - 1)
    _number("top_p", params.top_p, 0.0, 1.0, above_low=True)
    _number("min_p", params.min_p, 0.0, 1.0)
    _number("repetition_penalty", params.repetition_penalty, 0.0, 100.0, above_low=True)
    _number("frequency_penalty", params.frequency_penalty, -2.0, 2.0)
    _number("presence_penalty", params.presence_penalty, -2.0, 2.0)
    _integer("min_tokens", params.min_tokens, 0, 2**31 - 1)
    if params.seed is not None:
        _integer("seed", params.seed, 0, _MASK)
    for token_id, bias in params.logit_bias.items():
        _integer("logit_bias token id", token_id, 0, vocab_size - 1)
        _number(f"logit_bias of token {token_id}", bias, -math.inf, 100.0)


def is_greedy(params: SamplingParams) -> bool:
    """Whether the choice is the plain arg max, so that no noise and no seed is involved."""
    return params.temperature < GREEDY_BELOW or params.top_k == 1


def choose(logits_row: Float32, choice: Choice, path: Sequence[int] | Int32 = ()) -> int:
    """The token that follows choice.history + path, given its float32[vocab] logits. See the module's text.

    Raises ParameterError for an empty row, StateError if the choice samples and its seed is not resolved.
    """
    if len(logits_row) == 0:
        raise ParameterError("choose: the row of logits is empty; it needs one value per token")
    if len(path) < len(choice.forced):
        return int(choice.forced[len(path)])
    history = np.concatenate([choice.history, np.asarray(path, np.int32)])
    logits, banned = _adjusted(logits_row, choice, history)
    order = np.argsort(-logits, kind="stable")
    order = order[logits[order] > -np.inf]
    if len(order) == 0:
        return int(np.argmin(banned))
    if is_greedy(choice.params):
        return int(order[0])
    kept, distance = _filtered(logits, order, choice.params)
    score = distance + gumbel_noise(resolved_seed(choice), choice.stream, len(history), kept)
    return int(kept[score == score.max()].min())


def probabilities(logits_row: Float32, choice: Choice, path: Sequence[int] | Int32 = ()) -> Float64:
    """float64[vocab]: how likely `choose` takes each token, over all seeds; greedy: 1 for one of them."""
    history = np.concatenate([choice.history, np.asarray(path, np.int32)])
    logits, _ = _adjusted(logits_row, choice, history)
    result = np.zeros(len(logits_row), np.float64)
    highest = logits.max()
    if is_greedy(choice.params) or highest == -np.inf:
        result[choose(logits_row, replace(choice, forced=EMPTY_IDS), path)] = 1.0
        return result
    order = _in_order(logits, highest, choice.params)
    kept, distance = _filtered(logits, order, choice.params)
    weights = np.exp(distance)
    result[kept] = weights / weights.sum()
    return result


def gumbel_noise(seed: int, stream: int, position: int, token_ids: npt.ArrayLike) -> Float64:
    """Standard Gumbel noise, float64[n], of n tokens at one position: what `choose` adds to their logits."""
    return -log(-log(uniforms(seed, stream, position, token_ids)))


def uniforms(seed: int, stream: int, position: int, token_ids: npt.ArrayLike) -> Float64:
    """The u of step 4, float64[n], uniform in the open interval (0, 1)."""
    a = _mix(_mix(_mix(int(seed) + _GOLDEN) + (int(stream) + 1) * _GOLDEN) + (int(position) + 1) * _GOLDEN)
    key_0, key_1 = np.uint64(_mix(a + _GOLDEN)), np.uint64(_mix(a + 2 * _GOLDEN))
    x: UInt64 = (np.atleast_1d(np.asarray(token_ids, np.uint64)) + np.uint64(1)) * np.uint64(_GOLDEN) + key_0
    x = (x ^ (x >> np.uint64(30))) * np.uint64(_MIX_1) ^ key_1
    x = (x ^ (x >> np.uint64(27))) * np.uint64(_MIX_2)
    x = x ^ (x >> np.uint64(31))
    result: Float64 = (2 * (x >> np.uint64(12)).astype(np.int64) + 1).astype(np.float64) * 2.0**-53
    return result


def softmax_weights(distance: Float64) -> Int64:
    """The integer weights W of step 3 for distances d <= 0, int64[n]: 2**40 for the most likely token."""
    return np.rint(np.ldexp(exp(distance), WEIGHT_BITS)).astype(np.int64)


def exp(x: Float64) -> Float64:
    """e**x for x <= 0, to a relative error of 1e-14; 0 below -700. The same bits on every machine."""
    clamped = np.maximum(x, _EXP_MIN)
    n = np.rint(clamped * _LOG2_E)
    r = (clamped - n * _LN2_HIGH) - n * _LN2_LOW
    value = np.ldexp(_horner(_EXP_TERMS, r), n.astype(np.int32))
    return np.where(x < _EXP_MIN, 0.0, value)


def log(x: Float64) -> Float64:
    """Natural logarithm for normal x > 0, to a relative error of 1e-15. The same bits on every machine.

    With x = 2**e * (1 + f) and s = f / (2 + f), log(1 + f) = 2 * atanh(s), whose series is used up to s**19.
    """
    mantissa, exponent = np.frexp(x)
    low = mantissa < _SQRT_HALF
    f = np.where(low, mantissa * 2.0, mantissa) - 1.0
    e = (exponent - low).astype(np.float64)
    s = f / (f + 2.0)
    z = s * s
    twice = s + s
    tail = twice * (z * _horner(_LOG_TERMS[1:], z))
    result: Float64 = e * _LN2_HIGH + (twice + (tail + e * _LN2_LOW))
    return result


def resolved_seed(choice: Choice) -> int:
    """The seed of a choice that samples. Raises StateError where none has been drawn yet."""
    if choice.params.seed is None:
        raise StateError("choose: params.seed is None; draw a seed before the first token is chosen")
    return choice.params.seed


def chooser_arguments(choice: Choice) -> dict[str, Any]:
    """A Choice as the keyword arguments of the native `Chooser` (a greedy one needs no seed and gets 0)."""
    params = choice.params
    return {
        "temperature": float(params.temperature),
        "top_k": int(params.top_k),
        "top_p": float(params.top_p),
        "min_p": float(params.min_p),
        "repetition_penalty": float(params.repetition_penalty),
        "frequency_penalty": float(params.frequency_penalty),
        "presence_penalty": float(params.presence_penalty),
        "logit_bias": [(int(token_id), float(bias)) for token_id, bias in params.logit_bias.items()],
        "eos_ids": [int(token_id) for token_id in choice.eos_ids],
        "min_tokens": int(params.min_tokens),
        "seed": 0 if is_greedy(params) else resolved_seed(choice),
        "stream": int(choice.stream),
        "history": np.ascontiguousarray(choice.history, np.int32),
        "prompt_length": int(choice.prompt_length),
        "forced": choice.forced.tolist(),
    }


def _adjusted(row: Float32, choice: Choice, history: Int32) -> tuple[Float64, npt.NDArray[np.bool_]]:
    """Step 1: the adjusted logits, float64[vocab], and which tokens are banned."""
    params, vocab_size = choice.params, len(row)
    logits = np.where(np.isnan(row), -np.inf, np.minimum(row, np.finfo(np.float32).max)).astype(np.float64)
    output = history[choice.prompt_length :]
    seen = np.unique(_inside(history, vocab_size))
    value = logits[seen]
    with np.errstate(over="ignore"):  # a tiny penalty may reach inf, which ends as MAX_LOGIT
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
        banned[_inside(np.array(choice.eos_ids, np.int64), vocab_size)] = True
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
    """Step 3: the ids that top-k, top-p and min-p leave, in order, and their distances d."""
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


def _mix(x: int) -> int:
    """The 64-bit finaliser of the module's text, for one Python integer (taken mod 2**64)."""
    x &= _MASK
    x = (x ^ (x >> 30)) * _MIX_1 & _MASK
    x = (x ^ (x >> 27)) * _MIX_2 & _MASK
    return x ^ (x >> 31)


def _horner(terms: list[float], x: Float64) -> Float64:
    value = np.full_like(x, terms[-1])
    for term in reversed(terms[:-1]):
        value = value * x + term
    return value


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

"""Arithmetic that gives the same bits on every machine: exp, log, and uniform numbers from a hash.

native/choose has the same functions in C++; every operation is rounded by itself (IEEE 754 float64).
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from guessahead.types import Float64

UInt64 = npt.NDArray[np.uint64]

MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_MIX_1 = 0xBF58476D1CE4E5B9
_MIX_2 = 0x94D049BB133111EB

_LOG2_E = 1.4426950408889634
_LN2_HIGH = float.fromhex("0x1.62e42feep-1")  # 32 leading bits: n * _LN2_HIGH is exact for the n in use
_LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
_SQRT_HALF = 0.7071067811865476
_EXP_MIN = -700.0
_EXP_TERMS = [1.0 / math.factorial(n) for n in range(12)]
_LOG_TERMS = [1.0 / (2 * n + 1) for n in range(10)]


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


def uniforms(seed: int, stream: int, position: int, token_ids: npt.ArrayLike) -> Float64:
    """float64[n]: the u of step 4 of sampling.py, uniform in the open interval (0, 1)."""
    a = _mix(_mix(_mix(int(seed) + _GOLDEN) + (int(stream) + 1) * _GOLDEN) + (int(position) + 1) * _GOLDEN)
    key_0, key_1 = np.uint64(_mix(a + _GOLDEN)), np.uint64(_mix(a + 2 * _GOLDEN))
    x: UInt64 = (np.atleast_1d(np.asarray(token_ids, np.uint64)) + np.uint64(1)) * np.uint64(_GOLDEN) + key_0
    x = (x ^ (x >> np.uint64(30))) * np.uint64(_MIX_1) ^ key_1
    x = (x ^ (x >> np.uint64(27))) * np.uint64(_MIX_2)
    x = x ^ (x >> np.uint64(31))
    result: Float64 = (2 * (x >> np.uint64(12)).astype(np.int64) + 1).astype(np.float64) * 2.0**-53
    return result


def _mix(x: int) -> int:
    """The 64-bit finaliser of sampling.py, for one Python integer (taken mod 2**64)."""
    x &= MASK
    x = (x ^ (x >> 30)) * _MIX_1 & MASK
    x = (x ^ (x >> 27)) * _MIX_2 & MASK
    return x ^ (x >> 31)


def _horner(terms: list[float], x: Float64) -> Float64:
    value = np.full_like(x, terms[-1])
    for term in reversed(terms[:-1]):
        value = value * x + term
    return value

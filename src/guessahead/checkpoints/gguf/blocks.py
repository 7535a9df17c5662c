"""What the encoders and decoders of ggml's quantised formats share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from guessahead.checkpoints.gguf.types import Bytes
from guessahead.errors import ParameterError
from guessahead.types import Float32

Blocks: TypeAlias = npt.NDArray[np.void]


@dataclass(frozen=True, slots=True)
class Codec:
    """One format. decode: blocks -> float32[num_blocks, block_size] (or a reshape of it).

    encode: float32[num_blocks, block_size] -> fills blocks.
    steps: blocks -> what multiplies the codes of each run, float32[num_blocks, runs], of either sign.
    """

    layout: np.dtype[np.void]
    decode: Callable[[Blocks], Float32]
    encode: Callable[[Float32, Blocks], None]
    steps: Callable[[Blocks], Float32]


# What the codes of IQ4_NL and IQ4_XS stand for (ggml's kvalues_iq4nl).
LEVELS: Final = np.array(
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.float32
)
_PAIRS: Final = np.arange(0, 8, 2, dtype=np.uint8)[:, None]


def to_half(values: Float32) -> npt.NDArray[np.float16]:
    with np.errstate(over="ignore"):
        halves = values.astype("<f2")
    if not np.array_equal(np.isinf(halves), np.isinf(values)):
        raise ParameterError("values above 65504 cannot be stored as F16, nor as the scale of a block")
    return halves


def ratio(numerator: Float32, denominator: Float32) -> Float32:
    """Element by element, 0 where the denominator is 0."""
    shape = np.broadcast_shapes(numerator.shape, denominator.shape)
    return np.divide(numerator, denominator, out=np.zeros(shape, np.float32), where=denominator != 0)


def nearest_codes(values: Float32, scale: Float32, low: int, high: int) -> Float32:
    """The nearest whole multiples of `scale`, within [low, high] (np.rint: ties to even)."""
    return np.clip(np.rint(ratio(values, scale)), low, high)


def stored(halves: npt.NDArray[np.float16]) -> Float32:
    """Scales as the reader will see them, so that codes are rounded against the truth; a column."""
    return halves.astype(np.float32)[:, None]


def extreme_of(values: Float32) -> Float32:
    """The value of largest magnitude along the last axis, with its sign."""
    high, low = values.max(axis=-1), values.min(axis=-1)
    extreme: Float32 = np.where(high > -low, high, low)
    return extreme


def join_nibbles(codes: npt.NDArray[Any]) -> Bytes:
    """[..., 2, n] codes below 16 -> [..., n] bytes: the first n in the low halves, the rest in the high."""
    joined: Bytes = codes[..., 0, :].astype(np.uint8) | (codes[..., 1, :].astype(np.uint8) << np.uint8(4))
    return joined


def split_nibbles(codes: Bytes) -> Bytes:
    """The inverse: [..., n] bytes -> [..., 2, n] codes."""
    return np.stack([codes & np.uint8(15), codes >> np.uint8(4)], axis=-2)


def nearest_levels(ratios: Float32) -> npt.NDArray[np.intp]:
    """Codes of the nearest of LEVELS."""
    return np.searchsorted((LEVELS[1:] + LEVELS[:-1]) / 2, ratios)


def split_pairs(packed: Bytes) -> Bytes:
    """[..., n] bytes -> [..., 4, n] two-bit codes, the lowest first."""
    return (packed[..., None, :] >> _PAIRS) & np.uint8(3)


def join_pairs(codes: Bytes) -> Bytes:
    """The inverse of `split_pairs`."""
    joined: Bytes = np.bitwise_or.reduce(codes << _PAIRS, axis=-2)
    return joined

"""The layouts of ggml's quantised formats, with a decoder and an encoder for each; see `quantize.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from guessahead.errors import ParameterError
from guessahead.gguf.types import Bytes, GGMLType
from guessahead.types import Float32

Blocks: TypeAlias = npt.NDArray[np.void]
LAYOUTS: Final[dict[GGMLType, np.dtype[np.void]]] = {
    GGMLType.Q8_0: np.dtype([("scale", "<f2"), ("codes", "i1", 32)]),
    GGMLType.Q4_1: np.dtype([("scale", "<f2"), ("minimum", "<f2"), ("codes", "u1", 16)]),
    GGMLType.Q5_0: np.dtype([("scale", "<f2"), ("high", "<u4"), ("codes", "u1", 16)]),
    GGMLType.Q4_0: np.dtype([("scale", "<f2"), ("codes", "u1", 16)]),
    GGMLType.IQ4_NL: np.dtype([("scale", "<f2"), ("codes", "u1", 16)]),
    GGMLType.Q3_K: np.dtype([("thirds", "u1", 32), ("low", "u1", 64), ("six", "u1", 12), ("scale", "<f2")]),
    GGMLType.Q4_K: np.dtype([("scale", "<f2"), ("minimum", "<f2"), ("six", "u1", 12), ("codes", "u1", 128)]),
    GGMLType.Q6_K: np.dtype([("low", "u1", 128), ("high", "u1", 64), ("scales", "i1", 16), ("scale", "<f2")]),
}


# What the codes of IQ4_NL stand for (ggml's kvalues_iq4nl).
_LEVELS: Final = np.array(
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.float32
)


def to_half(values: Float32) -> npt.NDArray[np.float16]:
    with np.errstate(over="ignore"):
        halves = values.astype("<f2")
    if not np.array_equal(np.isinf(halves), np.isinf(values)):
        raise ParameterError("values above 65504 cannot be stored as F16, nor as the scale of a block")
    return halves


def _ratio(numerator: Float32, denominator: Float32) -> Float32:
    """Element by element, 0 where the denominator is 0."""
    shape = np.broadcast_shapes(numerator.shape, denominator.shape)
    return np.divide(numerator, denominator, out=np.zeros(shape, np.float32), where=denominator != 0)


def _codes(values: Float32, scale: Float32, low: int, high: int) -> Float32:
    """The nearest whole multiples of `scale`, within [low, high] (np.rint: ties to even)."""
    return np.clip(np.rint(_ratio(values, scale)), low, high)


def stored(halves: npt.NDArray[np.float16]) -> Float32:
    """Scales as the reader will see them, so that codes are rounded against the truth; a column."""
    return halves.astype(np.float32)[:, None]


def _extreme(values: Float32) -> Float32:
    """The value of largest magnitude along the last axis, with its sign."""
    high, low = values.max(axis=-1), values.min(axis=-1)
    extreme: Float32 = np.where(high > -low, high, low)
    return extreme


def _join_nibbles(codes: npt.NDArray[Any]) -> Bytes:
    """[..., 2, n] codes below 16 -> [..., n] bytes: the first n in the low halves, the rest in the high."""
    joined: Bytes = codes[..., 0, :].astype(np.uint8) | (codes[..., 1, :].astype(np.uint8) << np.uint8(4))
    return joined


def _split_nibbles(codes: Bytes) -> Bytes:
    """The inverse: [..., n] bytes -> [..., 2, n] codes."""
    return np.stack([codes & np.uint8(15), codes >> np.uint8(4)], axis=-2)


# One pair of functions per format. Decoders: blocks -> float32[num_blocks, block_size] (or a reshape of it).
# Encoders: float32[num_blocks, block_size] -> fill blocks.


def _decode_q8_0(blocks: Blocks) -> Float32:
    codes: Float32 = blocks["codes"].astype(np.float32)
    return stored(blocks["scale"]) * codes


def _encode_q8_0(values: Float32, blocks: Blocks) -> None:
    blocks["scale"] = to_half(np.abs(values).max(axis=1) / np.float32(127))
    blocks["codes"] = _codes(values, stored(blocks["scale"]), -127, 127)


def _decode_q4_1(blocks: Blocks) -> Float32:
    codes = _split_nibbles(blocks["codes"]).reshape(-1, 32).astype(np.float32)
    return stored(blocks["scale"]) * codes + stored(blocks["minimum"])


def _encode_q4_1(values: Float32, blocks: Blocks) -> None:
    low = values.min(axis=1)
    blocks["minimum"] = to_half(low)
    blocks["scale"] = to_half((values.max(axis=1) - low) / np.float32(15))
    codes = _codes(values - stored(blocks["minimum"]), stored(blocks["scale"]), 0, 15)
    blocks["codes"] = _join_nibbles(codes.reshape(-1, 2, 16))


def _decode_q5_0(blocks: Blocks) -> Float32:
    low = _split_nibbles(blocks["codes"]).reshape(-1, 32)
    fifth = (blocks["high"][:, None] >> np.arange(32, dtype=np.uint32)) & np.uint32(1)
    codes = low.astype(np.float32) + fifth.astype(np.float32) * np.float32(16) - np.float32(16)
    return stored(blocks["scale"]) * codes


def _encode_q5_0(values: Float32, blocks: Blocks) -> None:
    blocks["scale"] = to_half(_extreme(values) / np.float32(-16))
    codes = (_codes(values, stored(blocks["scale"]), -16, 15) + 16).astype(np.uint8)
    blocks["codes"] = _join_nibbles((codes & np.uint8(15)).reshape(-1, 2, 16))
    blocks["high"] = np.packbits(codes >> np.uint8(4), axis=1, bitorder="little").view("<u4")[:, 0]


def _decode_q4_k(blocks: Blocks) -> Float32:
    scales, minima = unpack_6_bits(blocks["six"])
    codes = _split_nibbles(blocks["codes"].reshape(-1, 4, 32)).reshape(-1, 8, 32).astype(np.float32)
    steps = (stored(blocks["scale"]) * scales.astype(np.float32))[..., None]
    offsets = (stored(blocks["minimum"]) * minima.astype(np.float32))[..., None]
    return steps * codes - offsets


def _encode_q4_k(values: Float32, blocks: Blocks) -> None:
    groups = values.reshape(-1, 8, 32)
    depth = np.maximum(-groups.min(axis=2), np.float32(0))  # offsets are subtracted and never negative
    span = (groups.max(axis=2) + depth) / np.float32(15)
    span = np.maximum(span, np.float32(0))
    blocks["scale"] = to_half(span.max(axis=1) / np.float32(63))
    blocks["minimum"] = to_half(depth.max(axis=1) / np.float32(63))
    scales = _codes(span, stored(blocks["scale"]), 0, 63)
    minima = _codes(depth, stored(blocks["minimum"]), 0, 63)
    blocks["six"] = _pack_6_bits(scales.astype(np.uint8), minima.astype(np.uint8))
    steps = (stored(blocks["scale"]) * scales)[..., None]
    offsets = (stored(blocks["minimum"]) * minima)[..., None]
    codes = _codes(groups + offsets, steps, 0, 15)
    blocks["codes"] = _join_nibbles(codes.reshape(-1, 4, 2, 32)).reshape(-1, 128)


def unpack_6_bits(packed: Bytes) -> tuple[Bytes, Bytes]:
    """Q4_K's twelve bytes -> eight 6-bit scales and eight 6-bit minima.

    Bytes 0-3 hold scales 0-3, bytes 4-7 minima 0-3; their top two bits are those of scales and minima 4-7,
    whose low halves share bytes 8-11.
    """
    first, second, third = packed[:, 0:4], packed[:, 4:8], packed[:, 8:12]
    low, top, shift = np.uint8(63), np.uint8(48), np.uint8(2)
    scales = np.concatenate([first & low, (third & np.uint8(15)) | ((first >> shift) & top)], axis=1)
    minima = np.concatenate([second & low, (third >> np.uint8(4)) | ((second >> shift) & top)], axis=1)
    return scales, minima


def _pack_6_bits(scales: Bytes, minima: Bytes) -> Bytes:
    """The inverse of `unpack_6_bits`."""
    shift = np.uint8(4)
    top_scales, top_minima = scales[:, 4:] >> shift, minima[:, 4:] >> shift
    return np.concatenate(
        [
            scales[:, :4] | (top_scales << np.uint8(6)),
            minima[:, :4] | (top_minima << np.uint8(6)),
            (scales[:, 4:] & np.uint8(15)) | (minima[:, 4:] << shift),
        ],
        axis=1,
    )


def _decode_q6_k(blocks: Blocks) -> Float32:
    # Each half of a block, 128 values, is four runs of 32: low four bits from 64 bytes (first the low, then
    # the high halves), top two bits from 32 bytes (one pair of bits per run).
    low = _split_nibbles(blocks["low"].reshape(-1, 2, 64)).reshape(-1, 2, 4, 32)
    pairs = np.arange(0, 8, 2, dtype=np.uint8)[:, None]
    high = (blocks["high"].reshape(-1, 2, 1, 32) >> pairs) & np.uint8(3)
    codes = (low | (high << np.uint8(4))).reshape(-1, 16, 16).astype(np.float32) - np.float32(32)
    steps = stored(blocks["scale"]) * blocks["scales"].astype(np.float32)
    return steps[..., None] * codes


def _encode_q6_k(values: Float32, blocks: Blocks) -> None:
    groups = values.reshape(-1, 16, 16)
    wanted = _extreme(groups) / np.float32(-32)
    blocks["scale"] = to_half(_extreme(wanted) / np.float32(-128))
    scales = _codes(wanted, stored(blocks["scale"]), -128, 127)
    blocks["scales"] = scales
    steps = (stored(blocks["scale"]) * scales)[..., None]
    codes = (_codes(groups, steps, -32, 31) + 32).astype(np.uint8).reshape(-1, 2, 4, 32)
    blocks["low"] = _join_nibbles((codes & np.uint8(15)).reshape(-1, 2, 2, 64)).reshape(-1, 128)
    pairs = np.arange(0, 8, 2, dtype=np.uint8)[:, None]
    high = (codes >> np.uint8(4)) << pairs
    blocks["high"] = np.bitwise_or.reduce(high, axis=2).reshape(-1, 64)


def _decode_q4_0(blocks: Blocks) -> Float32:
    codes = _split_nibbles(blocks["codes"]).reshape(-1, 32).astype(np.float32) - np.float32(8)
    return stored(blocks["scale"]) * codes


def _encode_q4_0(values: Float32, blocks: Blocks) -> None:
    blocks["scale"] = to_half(_extreme(values) / np.float32(-8))
    codes = _codes(values, stored(blocks["scale"]), -8, 7) + 8
    blocks["codes"] = _join_nibbles(codes.reshape(-1, 2, 16))


def _decode_iq4_nl(blocks: Blocks) -> Float32:
    return stored(blocks["scale"]) * _LEVELS[_split_nibbles(blocks["codes"]).reshape(-1, 32)]


def _encode_iq4_nl(values: Float32, blocks: Blocks) -> None:
    blocks["scale"] = to_half(_extreme(values) / np.float32(-127))
    between = (_LEVELS[1:] + _LEVELS[:-1]) / 2
    codes = np.searchsorted(between, _ratio(values, stored(blocks["scale"])))
    blocks["codes"] = _join_nibbles(codes.reshape(-1, 2, 16))


def _decode_q3_k(blocks: Blocks) -> Float32:
    # Eight runs of 32 values: two bits from one of two runs of bytes, the third from one bit of `thirds`.
    pairs, ones = np.arange(0, 8, 2, dtype=np.uint8)[:, None], np.arange(8, dtype=np.uint8)[:, None]
    low = ((blocks["low"].reshape(-1, 2, 1, 32) >> pairs) & np.uint8(3)).reshape(-1, 8, 32)
    third = (blocks["thirds"][:, None, :] >> ones) & np.uint8(1)
    codes = (low | (third << np.uint8(2))).reshape(-1, 16, 16).astype(np.float32) - np.float32(4)
    return q3_k_steps(blocks)[..., None] * codes


def _encode_q3_k(values: Float32, blocks: Blocks) -> None:
    groups = values.reshape(-1, 16, 16)
    wanted = _extreme(groups) / np.float32(-4)
    blocks["scale"] = to_half(_extreme(wanted) / np.float32(-32))
    scales = (_codes(wanted, stored(blocks["scale"]), -32, 31) + 32).astype(np.uint8)
    high = (scales >> np.uint8(4)).reshape(-1, 4, 4) << np.arange(0, 8, 2, dtype=np.uint8)[:, None]
    low = _join_nibbles((scales & np.uint8(15)).reshape(-1, 2, 8))
    blocks["six"] = np.concatenate([low, np.bitwise_or.reduce(high, axis=1)], axis=1)
    codes = (_codes(groups, q3_k_steps(blocks)[..., None], -4, 3) + 4).astype(np.uint8).reshape(-1, 8, 32)
    blocks["thirds"] = np.packbits(codes >> np.uint8(2), axis=1, bitorder="little")[:, 0]
    pairs = (codes & np.uint8(3)).reshape(-1, 2, 4, 32) << np.arange(0, 8, 2, dtype=np.uint8)[:, None]
    blocks["low"] = np.bitwise_or.reduce(pairs, axis=2).reshape(-1, 64)


def q3_k_steps(blocks: Blocks) -> Float32:
    """The sixteen steps of each Q3_K block: scale * (6-bit number - 32).

    Bytes 0-7 hold the low halves of numbers 0-7, then 8-15; bytes 8-11 the top two bits of four numbers each,
    those of number j in byte j % 4.
    """
    low = _split_nibbles(blocks["six"][:, :8]).reshape(-1, 16)
    top = (blocks["six"][:, None, 8:] >> np.arange(0, 8, 2, dtype=np.uint8)[:, None]) & np.uint8(3)
    numbers = low | (top.reshape(-1, 16) << np.uint8(4))
    steps: Float32 = stored(blocks["scale"]) * (numbers.astype(np.float32) - np.float32(32))
    return steps


DECODERS: Final[dict[GGMLType, Callable[[Blocks], Float32]]] = {
    GGMLType.Q8_0: _decode_q8_0,
    GGMLType.Q4_1: _decode_q4_1,
    GGMLType.Q5_0: _decode_q5_0,
    GGMLType.Q4_K: _decode_q4_k,
    GGMLType.Q6_K: _decode_q6_k,
    GGMLType.Q4_0: _decode_q4_0,
    GGMLType.IQ4_NL: _decode_iq4_nl,
    GGMLType.Q3_K: _decode_q3_k,
}
ENCODERS: Final[dict[GGMLType, Callable[[Float32, Blocks], None]]] = {
    GGMLType.Q8_0: _encode_q8_0,
    GGMLType.Q4_1: _encode_q4_1,
    GGMLType.Q5_0: _encode_q5_0,
    GGMLType.Q4_K: _encode_q4_k,
    GGMLType.Q6_K: _encode_q6_k,
    GGMLType.Q4_0: _encode_q4_0,
    GGMLType.IQ4_NL: _encode_iq4_nl,
    GGMLType.Q3_K: _encode_q3_k,
}

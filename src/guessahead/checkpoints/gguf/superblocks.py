"""ggml's formats of 256 values a block, whose runs of 16 or 32 have scales of few bits; see `formats.py`."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from guessahead.checkpoints.gguf.bits import join_bits, pack_6_bits, split_bits, unpack_6_bits
from guessahead.checkpoints.gguf.blocks import (
    LEVELS,
    Blocks,
    Codec,
    extreme_of,
    join_nibbles,
    join_pairs,
    nearest_codes,
    nearest_levels,
    ratio,
    split_nibbles,
    split_pairs,
    stored,
    to_half,
)
from guessahead.checkpoints.gguf.types import Bytes, GGMLType
from guessahead.types import Float32

# ---- Q4_K and Q5_K: runs of 32 with a scale and an offset of six bits each ----


def _steps_and_offsets(blocks: Blocks) -> tuple[Float32, Float32]:
    """[blocks, 8] each."""
    scales, minima = unpack_6_bits(blocks["six"])
    steps: Float32 = stored(blocks["scale"]) * scales.astype(np.float32)
    offsets: Float32 = stored(blocks["minimum"]) * minima.astype(np.float32)
    return steps, offsets


def _steps_q45_k(blocks: Blocks) -> Float32:
    return _steps_and_offsets(blocks)[0]


def _depths_and_spans(groups: Float32, most: int) -> tuple[Float32, Float32]:
    """Wanted offsets (they are subtracted, and never negative) and steps for codes up to `most`."""
    depth = np.maximum(-groups.min(axis=2), np.float32(0))
    span = np.maximum((groups.max(axis=2) + depth) / np.float32(most), np.float32(0))
    return depth, span


def _codes_q45_k(values: Float32, blocks: Blocks, most: int) -> Bytes:
    """Sets the scales; gives the codes, [blocks, 8, 32]."""
    groups = values.reshape(-1, 8, 32)
    depth, span = _depths_and_spans(groups, most)
    blocks["scale"] = to_half(span.max(axis=1) / np.float32(63))
    blocks["minimum"] = to_half(depth.max(axis=1) / np.float32(63))
    scales = nearest_codes(span, stored(blocks["scale"]), 0, 63)
    minima = nearest_codes(depth, stored(blocks["minimum"]), 0, 63)
    blocks["six"] = pack_6_bits(scales.astype(np.uint8), minima.astype(np.uint8))
    steps = (stored(blocks["scale"]) * scales)[..., None]
    offsets = (stored(blocks["minimum"]) * minima)[..., None]
    return nearest_codes(groups + offsets, steps, 0, most).astype(np.uint8)


def _split_q45_k(codes: Bytes) -> Bytes:
    """[blocks, 128] bytes, of which 32 hold 64 nibbles -> [blocks, 8, 32]."""
    return split_nibbles(codes.reshape(-1, 4, 32)).reshape(-1, 8, 32)


def _join_q45_k(nibbles: npt.NDArray[Any]) -> Bytes:
    """The inverse of `_split_q45_k`."""
    return join_nibbles(nibbles.reshape(-1, 4, 2, 32)).reshape(-1, 128)


def _decode_q4_k(blocks: Blocks) -> Float32:
    steps, offsets = _steps_and_offsets(blocks)
    return steps[..., None] * _split_q45_k(blocks["codes"]).astype(np.float32) - offsets[..., None]


def _encode_q4_k(values: Float32, blocks: Blocks) -> None:
    blocks["codes"] = _join_q45_k(_codes_q45_k(values, blocks, 15))


def _decode_q5_k(blocks: Blocks) -> Float32:
    codes = _split_q45_k(blocks["codes"]) | (split_bits(blocks["high"]) << np.uint8(4))
    steps, offsets = _steps_and_offsets(blocks)
    return steps[..., None] * codes.astype(np.float32) - offsets[..., None]


def _encode_q5_k(values: Float32, blocks: Blocks) -> None:
    codes = _codes_q45_k(values, blocks, 31)
    blocks["codes"] = _join_q45_k(codes & np.uint8(15))
    blocks["high"] = join_bits(codes >> np.uint8(4))


# ---- Q6_K: runs of 16 with a scale of eight bits ----


def _steps_q6_k(blocks: Blocks) -> Float32:
    steps: Float32 = stored(blocks["scale"]) * blocks["scales"].astype(np.float32)
    return steps


def _decode_q6_k(blocks: Blocks) -> Float32:
    # Each half of a block, 128 values, is four runs of 32: low four bits from 64 bytes (first the low, then
    # the high halves), top two bits from 32 bytes (one pair of bits per run).
    low = split_nibbles(blocks["low"].reshape(-1, 2, 64)).reshape(-1, 2, 4, 32)
    high = split_pairs(blocks["high"].reshape(-1, 2, 32))
    codes = (low | (high << np.uint8(4))).reshape(-1, 16, 16).astype(np.float32) - np.float32(32)
    return _steps_q6_k(blocks)[..., None] * codes


def _encode_q6_k(values: Float32, blocks: Blocks) -> None:
    groups = values.reshape(-1, 16, 16)
    wanted = extreme_of(groups) / np.float32(-32)
    blocks["scale"] = to_half(extreme_of(wanted) / np.float32(-128))
    blocks["scales"] = nearest_codes(wanted, stored(blocks["scale"]), -128, 127)
    codes = (nearest_codes(groups, _steps_q6_k(blocks)[..., None], -32, 31) + 32).astype(np.uint8)
    codes = codes.reshape(-1, 2, 4, 32)
    blocks["low"] = join_nibbles((codes & np.uint8(15)).reshape(-1, 2, 2, 64)).reshape(-1, 128)
    blocks["high"] = join_pairs(codes >> np.uint8(4)).reshape(-1, 64)


# ---- Q3_K: runs of 16 with a scale of six bits ----


def _steps_q3_k(blocks: Blocks) -> Float32:
    """scale * (6-bit number - 32).

    Bytes 0-7 hold the low halves of numbers 0-7, then 8-15; bytes 8-11 the top two bits of four numbers each,
    those of number j in byte j % 4.
    """
    low = split_nibbles(blocks["six"][:, :8]).reshape(-1, 16)
    top = split_pairs(blocks["six"][:, 8:]).reshape(-1, 16)
    numbers = low | (top << np.uint8(4))
    steps: Float32 = stored(blocks["scale"]) * (numbers.astype(np.float32) - np.float32(32))
    return steps


def _decode_q3_k(blocks: Blocks) -> Float32:
    # Eight runs of 32 values: two bits from one of two runs of bytes, the third from one bit of `thirds`.
    low = split_pairs(blocks["low"].reshape(-1, 2, 32)).reshape(-1, 8, 32)
    codes = low | (split_bits(blocks["thirds"]) << np.uint8(2))
    return _steps_q3_k(blocks)[..., None] * (codes.reshape(-1, 16, 16).astype(np.float32) - np.float32(4))


def _encode_q3_k(values: Float32, blocks: Blocks) -> None:
    groups = values.reshape(-1, 16, 16)
    wanted = extreme_of(groups) / np.float32(-4)
    blocks["scale"] = to_half(extreme_of(wanted) / np.float32(-32))
    scales = (nearest_codes(wanted, stored(blocks["scale"]), -32, 31) + 32).astype(np.uint8)
    low = join_nibbles((scales & np.uint8(15)).reshape(-1, 2, 8))
    blocks["six"] = np.concatenate([low, join_pairs((scales >> np.uint8(4)).reshape(-1, 4, 4))], axis=1)
    codes = (nearest_codes(groups, _steps_q3_k(blocks)[..., None], -4, 3) + 4).astype(np.uint8)
    codes = codes.reshape(-1, 8, 32)
    blocks["thirds"] = join_bits(codes >> np.uint8(2))
    blocks["low"] = join_pairs((codes & np.uint8(3)).reshape(-1, 2, 4, 32)).reshape(-1, 64)


# ---- Q2_K: runs of 16 with a scale and, above it, an offset of four bits ----


def _steps_q2_k(blocks: Blocks) -> Float32:
    steps: Float32 = stored(blocks["scale"]) * (blocks["pairs"] & np.uint8(15)).astype(np.float32)
    return steps


def _offsets_q2_k(blocks: Blocks) -> Float32:
    offsets: Float32 = stored(blocks["minimum"]) * (blocks["pairs"] >> np.uint8(4)).astype(np.float32)
    return offsets


def _decode_q2_k(blocks: Blocks) -> Float32:
    codes = split_pairs(blocks["codes"].reshape(-1, 2, 32)).reshape(-1, 16, 16).astype(np.float32)
    return _steps_q2_k(blocks)[..., None] * codes - _offsets_q2_k(blocks)[..., None]


def _encode_q2_k(values: Float32, blocks: Blocks) -> None:
    groups = values.reshape(-1, 16, 16)
    depth, span = _depths_and_spans(groups, 3)
    blocks["scale"] = to_half(span.max(axis=1) / np.float32(15))
    blocks["minimum"] = to_half(depth.max(axis=1) / np.float32(15))
    scales = nearest_codes(span, stored(blocks["scale"]), 0, 15)
    minima = nearest_codes(depth, stored(blocks["minimum"]), 0, 15)
    blocks["pairs"] = join_nibbles(np.stack([scales, minima], axis=-2))
    lifted = groups + _offsets_q2_k(blocks)[..., None]
    codes = nearest_codes(lifted, _steps_q2_k(blocks)[..., None], 0, 3).astype(np.uint8)
    blocks["codes"] = join_pairs(codes.reshape(-1, 2, 4, 32)).reshape(-1, 64)


# ---- IQ4_XS: runs of 32 with a scale of six bits, codes of unequal distance ----


def _steps_iq4_xs(blocks: Blocks) -> Float32:
    """scale * (6-bit number - 32): low halves from four bytes, top two bits from two."""
    low = np.stack([blocks["low"] & np.uint8(15), blocks["low"] >> np.uint8(4)], axis=-1).reshape(-1, 8)
    high = (blocks["high"][:, None] >> np.arange(0, 16, 2, dtype=np.uint16)) & np.uint16(3)
    numbers = low.astype(np.float32) + high.astype(np.float32) * np.float32(16) - np.float32(32)
    steps: Float32 = stored(blocks["scale"]) * numbers
    return steps


def _decode_iq4_xs(blocks: Blocks) -> Float32:
    codes = split_nibbles(blocks["codes"].reshape(-1, 8, 16)).reshape(-1, 8, 32)
    return _steps_iq4_xs(blocks)[..., None] * LEVELS[codes]


def _encode_iq4_xs(values: Float32, blocks: Blocks) -> None:
    groups = values.reshape(-1, 8, 32)
    wanted = extreme_of(groups) / np.float32(-127)
    blocks["scale"] = to_half(extreme_of(wanted) / np.float32(-32))
    numbers = (nearest_codes(wanted, stored(blocks["scale"]), -32, 31) + 32).astype(np.uint16)
    low = (numbers & np.uint16(15)).astype(np.uint8).reshape(-1, 4, 2)
    blocks["low"] = low[..., 0] | (low[..., 1] << np.uint8(4))
    top = (numbers >> np.uint16(4)) << np.arange(0, 16, 2, dtype=np.uint16)
    blocks["high"] = np.bitwise_or.reduce(top, axis=1)
    codes = nearest_levels(ratio(groups, _steps_iq4_xs(blocks)[..., None]))
    blocks["codes"] = join_nibbles(codes.reshape(-1, 8, 2, 16)).reshape(-1, 128)


SUPERBLOCKS: Final[dict[GGMLType, Codec]] = {
    GGMLType.Q4_K: Codec(
        np.dtype([("scale", "<f2"), ("minimum", "<f2"), ("six", "u1", 12), ("codes", "u1", 128)]),
        _decode_q4_k,
        _encode_q4_k,
        _steps_q45_k,
    ),
    GGMLType.Q6_K: Codec(
        np.dtype([("low", "u1", 128), ("high", "u1", 64), ("scales", "i1", 16), ("scale", "<f2")]),
        _decode_q6_k,
        _encode_q6_k,
        _steps_q6_k,
    ),
    GGMLType.Q5_K: Codec(
        np.dtype(
            [
                ("scale", "<f2"),
                ("minimum", "<f2"),
                ("six", "u1", 12),
                ("high", "u1", 32),
                ("codes", "u1", 128),
            ]
        ),
        _decode_q5_k,
        _encode_q5_k,
        _steps_q45_k,
    ),
    GGMLType.Q3_K: Codec(
        np.dtype([("thirds", "u1", 32), ("low", "u1", 64), ("six", "u1", 12), ("scale", "<f2")]),
        _decode_q3_k,
        _encode_q3_k,
        _steps_q3_k,
    ),
    GGMLType.Q2_K: Codec(
        np.dtype([("pairs", "u1", 16), ("codes", "u1", 64), ("scale", "<f2"), ("minimum", "<f2")]),
        _decode_q2_k,
        _encode_q2_k,
        _steps_q2_k,
    ),
    GGMLType.IQ4_XS: Codec(
        np.dtype([("scale", "<f2"), ("high", "<u2"), ("low", "u1", 4), ("codes", "u1", 128)]),
        _decode_iq4_xs,
        _encode_iq4_xs,
        _steps_iq4_xs,
    ),
}

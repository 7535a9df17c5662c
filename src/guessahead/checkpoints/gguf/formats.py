"""The layouts of ggml's quantised formats, with a decoder and an encoder for each; see `quantize.py`.

Here are those of 32 values a block, `superblocks.py` has the others.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from guessahead.checkpoints.gguf.blocks import (
    LEVELS,
    Blocks,
    Codec,
    extreme_of,
    join_nibbles,
    nearest_codes,
    nearest_levels,
    ratio,
    split_nibbles,
    stored,
    to_half,
)
from guessahead.checkpoints.gguf.superblocks import SUPERBLOCKS
from guessahead.checkpoints.gguf.types import Bytes, GGMLType
from guessahead.types import Float32


def _steps(blocks: Blocks) -> Float32:
    return stored(blocks["scale"])


def _fifth_bits(blocks: Blocks) -> Bytes:
    """16 times the bits of `high`: [blocks, 32]."""
    bits = (blocks["high"][:, None] >> np.arange(32, dtype=np.uint32)) & np.uint32(1)
    return bits.astype(np.uint8) << np.uint8(4)


def _set_five_bits(codes: Bytes, blocks: Blocks) -> None:
    blocks["codes"] = join_nibbles((codes & np.uint8(15)).reshape(-1, 2, 16))
    blocks["high"] = np.packbits(codes >> np.uint8(4), axis=1, bitorder="little").view("<u4")[:, 0]


def _codes_from_minimum(values: Float32, blocks: Blocks, most: int) -> Bytes:
    """Sets scale and minimum; gives codes from 0 to `most`."""
    low = values.min(axis=1)
    blocks["minimum"] = to_half(low)
    blocks["scale"] = to_half((values.max(axis=1) - low) / np.float32(most))
    above = values - stored(blocks["minimum"])
    return nearest_codes(above, stored(blocks["scale"]), 0, most).astype(np.uint8)


def _decode_q8_0(blocks: Blocks) -> Float32:
    codes: Float32 = blocks["codes"].astype(np.float32)
    return stored(blocks["scale"]) * codes


def _encode_q8_0(values: Float32, blocks: Blocks) -> None:
    blocks["scale"] = to_half(np.abs(values).max(axis=1) / np.float32(127))
    blocks["codes"] = nearest_codes(values, stored(blocks["scale"]), -127, 127)


def _decode_q4_0(blocks: Blocks) -> Float32:
    codes = split_nibbles(blocks["codes"]).reshape(-1, 32).astype(np.float32) - np.float32(8)
    return stored(blocks["scale"]) * codes


def _encode_q4_0(values: Float32, blocks: Blocks) -> None:
    blocks["scale"] = to_half(extreme_of(values) / np.float32(-8))
    codes = nearest_codes(values, stored(blocks["scale"]), -8, 7) + 8
    blocks["codes"] = join_nibbles(codes.reshape(-1, 2, 16))


def _decode_q4_1(blocks: Blocks) -> Float32:
    codes = split_nibbles(blocks["codes"]).reshape(-1, 32).astype(np.float32)
    return stored(blocks["scale"]) * codes + stored(blocks["minimum"])


def _encode_q4_1(values: Float32, blocks: Blocks) -> None:
    blocks["codes"] = join_nibbles(_codes_from_minimum(values, blocks, 15).reshape(-1, 2, 16))


def _decode_q5_0(blocks: Blocks) -> Float32:
    codes = split_nibbles(blocks["codes"]).reshape(-1, 32) | _fifth_bits(blocks)
    return stored(blocks["scale"]) * (codes.astype(np.float32) - np.float32(16))


def _encode_q5_0(values: Float32, blocks: Blocks) -> None:
    blocks["scale"] = to_half(extreme_of(values) / np.float32(-16))
    _set_five_bits((nearest_codes(values, stored(blocks["scale"]), -16, 15) + 16).astype(np.uint8), blocks)


def _decode_q5_1(blocks: Blocks) -> Float32:
    codes = split_nibbles(blocks["codes"]).reshape(-1, 32) | _fifth_bits(blocks)
    return stored(blocks["scale"]) * codes.astype(np.float32) + stored(blocks["minimum"])


def _encode_q5_1(values: Float32, blocks: Blocks) -> None:
    _set_five_bits(_codes_from_minimum(values, blocks, 31), blocks)


def _decode_iq4_nl(blocks: Blocks) -> Float32:
    return stored(blocks["scale"]) * LEVELS[split_nibbles(blocks["codes"]).reshape(-1, 32)]


def _encode_iq4_nl(values: Float32, blocks: Blocks) -> None:
    blocks["scale"] = to_half(extreme_of(values) / np.float32(-127))
    codes = nearest_levels(ratio(values, stored(blocks["scale"])))
    blocks["codes"] = join_nibbles(codes.reshape(-1, 2, 16))


CODECS: Final[dict[GGMLType, Codec]] = {
    GGMLType.Q8_0: Codec(
        np.dtype([("scale", "<f2"), ("codes", "i1", 32)]), _decode_q8_0, _encode_q8_0, _steps
    ),
    GGMLType.Q4_0: Codec(
        np.dtype([("scale", "<f2"), ("codes", "u1", 16)]), _decode_q4_0, _encode_q4_0, _steps
    ),
    GGMLType.Q4_1: Codec(
        np.dtype([("scale", "<f2"), ("minimum", "<f2"), ("codes", "u1", 16)]),
        _decode_q4_1,
        _encode_q4_1,
        _steps,
    ),
    GGMLType.Q5_0: Codec(
        np.dtype([("scale", "<f2"), ("high", "<u4"), ("codes", "u1", 16)]), _decode_q5_0, _encode_q5_0, _steps
    ),
    GGMLType.Q5_1: Codec(
        np.dtype([("scale", "<f2"), ("minimum", "<f2"), ("high", "<u4"), ("codes", "u1", 16)]),
        _decode_q5_1,
        _encode_q5_1,
        _steps,
    ),
    GGMLType.IQ4_NL: Codec(
        np.dtype([("scale", "<f2"), ("codes", "u1", 16)]), _decode_iq4_nl, _encode_iq4_nl, _steps
    ),
    **SUPERBLOCKS,
}

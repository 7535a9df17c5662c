"""Tensor formats in numpy: bytes of a file to float32 values and back.

The layouts are ggml's. `dequantize` gives the same bits as the `gguf` package (a test says so); it is
exact and slow, for checks and conversion. The engine has its own kernels.
All functions are flat: a tensor's rows are whole blocks, so a tensor is one run of blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from guessahead.errors import ParameterError
from guessahead.gguf.types import Bytes, GGMLType
from guessahead.types import Float32

Blocks: TypeAlias = npt.NDArray[np.void]
_LAYOUTS: Final[dict[GGMLType, np.dtype[np.void]]] = {
    GGMLType.Q8_0: np.dtype([("scale", "<f2"), ("codes", "i1", 32)]),
    GGMLType.Q4_1: np.dtype([("scale", "<f2"), ("minimum", "<f2"), ("codes", "u1", 16)]),
    GGMLType.Q5_0: np.dtype([("scale", "<f2"), ("high", "<u4"), ("codes", "u1", 16)]),
    GGMLType.Q4_K: np.dtype([("scale", "<f2"), ("minimum", "<f2"), ("six", "u1", 12), ("codes", "u1", 128)]),
    GGMLType.Q6_K: np.dtype([("low", "u1", 128), ("high", "u1", 64), ("scales", "i1", 16), ("scale", "<f2")]),
}


def dequantize(data: Bytes, kind: GGMLType) -> Float32:
    """The values of whole blocks: uint8[num_bytes] -> float32[num_values].

    Raises ParameterError for formats that cannot be converted (see `CONVERTIBLE`).
    """
    if kind is GGMLType.F32:
        return data.view("<f4").astype(np.float32, copy=False)
    if kind is GGMLType.F16:
        return data.view("<f2").astype(np.float32)
    if kind is GGMLType.BF16:
        return (data.view("<u2").astype(np.uint32) << np.uint32(16)).view(np.float32)
    if kind not in _DECODERS:
        raise ParameterError(f"{kind.name} tensors cannot be converted ({_names()} can)")
    with np.errstate(invalid="ignore", over="ignore"):  # scales that are not finite stay what they are
        return _DECODERS[kind](data.view(_LAYOUTS[kind])).reshape(-1)


def step_sizes(data: Bytes, kind: GGMLType) -> Float32:
    """How far apart the values are that each element could have: float32[num_values]; 0 if not quantised."""
    if kind not in _DECODERS:
        return np.zeros(data.size // kind.block_bytes * kind.block_size, np.float32)
    blocks = data.view(_LAYOUTS[kind])
    steps = _stored(blocks["scale"])
    if kind is GGMLType.Q4_K:
        steps = steps * _unpack_6_bits(blocks["six"])[0].astype(np.float32)
    elif kind is GGMLType.Q6_K:
        steps = steps * blocks["scales"].astype(np.float32)
    return np.abs(steps).repeat(kind.block_size // steps.shape[1])


def quantize(values: Float32, kind: GGMLType) -> Bytes:
    """Encode float32[num_values] (whole blocks) -> uint8[num_bytes]; every code is the nearest one.

    Raises ParameterError for formats that cannot be written, and for values the format cannot hold:
    infinite, not a number, or beyond the range of the 16-bit scales.
    """
    values = np.ascontiguousarray(values, np.float32).reshape(-1)
    if kind is GGMLType.F32:
        return values.view(np.uint8)
    if kind is GGMLType.BF16:
        return _to_bf16(values).view(np.uint8)
    if kind is GGMLType.F16:
        return _to_half(values).view(np.uint8)
    if kind not in _ENCODERS:
        raise ParameterError(f"{kind.name} tensors cannot be written ({_names()} can)")
    if not np.isfinite(values).all():
        raise ParameterError(f"values that are not finite cannot be stored as {kind.name}")
    blocks = np.zeros(values.size // kind.block_size, _LAYOUTS[kind])
    _ENCODERS[kind](values.reshape(-1, kind.block_size), blocks)
    return blocks.view(np.uint8)


def _names() -> str:
    return ", ".join(kind.name for kind in CONVERTIBLE)


def _to_bf16(values: Float32) -> npt.NDArray[np.uint16]:
    """Round to nearest, ties to even, on the bits; not-a-numbers stay what they are, made quiet."""
    bits = values.view(np.uint32)
    rounded = bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))  # wraps for NaN only
    rounded = np.where(np.isnan(values), bits | np.uint32(0x00400000), rounded)
    return (rounded >> np.uint32(16)).astype("<u2")


def _to_half(values: Float32) -> npt.NDArray[np.float16]:
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


def _stored(halves: npt.NDArray[np.float16]) -> Float32:
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
    return _stored(blocks["scale"]) * codes


def _encode_q8_0(values: Float32, blocks: Blocks) -> None:
    blocks["scale"] = _to_half(np.abs(values).max(axis=1) / np.float32(127))
    blocks["codes"] = _codes(values, _stored(blocks["scale"]), -127, 127)


def _decode_q4_1(blocks: Blocks) -> Float32:
    codes = _split_nibbles(blocks["codes"]).reshape(-1, 32).astype(np.float32)
    return _stored(blocks["scale"]) * codes + _stored(blocks["minimum"])


def _encode_q4_1(values: Float32, blocks: Blocks) -> None:
    low = values.min(axis=1)
    blocks["minimum"] = _to_half(low)
    blocks["scale"] = _to_half((values.max(axis=1) - low) / np.float32(15))
    codes = _codes(values - _stored(blocks["minimum"]), _stored(blocks["scale"]), 0, 15)
    blocks["codes"] = _join_nibbles(codes.reshape(-1, 2, 16))


def _decode_q5_0(blocks: Blocks) -> Float32:
    low = _split_nibbles(blocks["codes"]).reshape(-1, 32)
    fifth = (blocks["high"][:, None] >> np.arange(32, dtype=np.uint32)) & np.uint32(1)
    codes = low.astype(np.float32) + fifth.astype(np.float32) * np.float32(16) - np.float32(16)
    return _stored(blocks["scale"]) * codes


def _encode_q5_0(values: Float32, blocks: Blocks) -> None:
    blocks["scale"] = _to_half(_extreme(values) / np.float32(-16))
    codes = (_codes(values, _stored(blocks["scale"]), -16, 15) + 16).astype(np.uint8)
    blocks["codes"] = _join_nibbles((codes & np.uint8(15)).reshape(-1, 2, 16))
    blocks["high"] = np.packbits(codes >> np.uint8(4), axis=1, bitorder="little").view("<u4")[:, 0]


def _decode_q4_k(blocks: Blocks) -> Float32:
    scales, minima = _unpack_6_bits(blocks["six"])
    codes = _split_nibbles(blocks["codes"].reshape(-1, 4, 32)).reshape(-1, 8, 32).astype(np.float32)
    steps = (_stored(blocks["scale"]) * scales.astype(np.float32))[..., None]
    offsets = (_stored(blocks["minimum"]) * minima.astype(np.float32))[..., None]
    return steps * codes - offsets


def _encode_q4_k(values: Float32, blocks: Blocks) -> None:
    groups = values.reshape(-1, 8, 32)
    depth = np.maximum(-groups.min(axis=2), np.float32(0))  # offsets are subtracted and never negative
    span = (groups.max(axis=2) + depth) / np.float32(15)
    span = np.maximum(span, np.float32(0))
    blocks["scale"] = _to_half(span.max(axis=1) / np.float32(63))
    blocks["minimum"] = _to_half(depth.max(axis=1) / np.float32(63))
    scales = _codes(span, _stored(blocks["scale"]), 0, 63)
    minima = _codes(depth, _stored(blocks["minimum"]), 0, 63)
    blocks["six"] = _pack_6_bits(scales.astype(np.uint8), minima.astype(np.uint8))
    steps = (_stored(blocks["scale"]) * scales)[..., None]
    offsets = (_stored(blocks["minimum"]) * minima)[..., None]
    codes = _codes(groups + offsets, steps, 0, 15)
    blocks["codes"] = _join_nibbles(codes.reshape(-1, 4, 2, 32)).reshape(-1, 128)


def _unpack_6_bits(packed: Bytes) -> tuple[Bytes, Bytes]:
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
    """The inverse of `_unpack_6_bits`."""
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
    steps = _stored(blocks["scale"]) * blocks["scales"].astype(np.float32)
    return steps[..., None] * codes


def _encode_q6_k(values: Float32, blocks: Blocks) -> None:
    groups = values.reshape(-1, 16, 16)
    wanted = _extreme(groups) / np.float32(-32)
    blocks["scale"] = _to_half(_extreme(wanted) / np.float32(-128))
    scales = _codes(wanted, _stored(blocks["scale"]), -128, 127)
    blocks["scales"] = scales
    steps = (_stored(blocks["scale"]) * scales)[..., None]
    codes = (_codes(groups, steps, -32, 31) + 32).astype(np.uint8).reshape(-1, 2, 4, 32)
    blocks["low"] = _join_nibbles((codes & np.uint8(15)).reshape(-1, 2, 2, 64)).reshape(-1, 128)
    pairs = np.arange(0, 8, 2, dtype=np.uint8)[:, None]
    high = (codes >> np.uint8(4)) << pairs
    blocks["high"] = np.bitwise_or.reduce(high, axis=2).reshape(-1, 64)


_DECODERS: Final[dict[GGMLType, Callable[[Blocks], Float32]]] = {
    GGMLType.Q8_0: _decode_q8_0,
    GGMLType.Q4_1: _decode_q4_1,
    GGMLType.Q5_0: _decode_q5_0,
    GGMLType.Q4_K: _decode_q4_k,
    GGMLType.Q6_K: _decode_q6_k,
}
_ENCODERS: Final[dict[GGMLType, Callable[[Float32, Blocks], None]]] = {
    GGMLType.Q8_0: _encode_q8_0,
    GGMLType.Q4_1: _encode_q4_1,
    GGMLType.Q5_0: _encode_q5_0,
    GGMLType.Q4_K: _encode_q4_k,
    GGMLType.Q6_K: _encode_q6_k,
}
CONVERTIBLE: Final = (GGMLType.F32, GGMLType.F16, GGMLType.BF16, *_DECODERS)

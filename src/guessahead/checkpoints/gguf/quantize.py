"""Tensor formats in numpy: bytes of a file to float32 values and back.

The layouts are ggml's. `dequantize` gives the same bits as the `gguf` package (a test says so). That package
encodes neither the K formats nor IQ4, and gives no step sizes: it is the reference of the tests only. All of
this is for conversion, training and small vectors; the engine has its own kernels.
All functions are flat: a tensor's rows are whole blocks, so a tensor is one run of blocks.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from guessahead.checkpoints.gguf.blocks import to_half
from guessahead.checkpoints.gguf.formats import CODECS
from guessahead.checkpoints.gguf.types import Bytes, GGMLType
from guessahead.errors import ParameterError
from guessahead.types import Float32


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
    if kind not in CODECS:
        raise ParameterError(f"{kind.name} tensors cannot be converted ({_names()} can)")
    with np.errstate(invalid="ignore", over="ignore"):  # scales that are not finite stay what they are
        return CODECS[kind].decode(data.view(CODECS[kind].layout)).reshape(-1)


def step_sizes(data: Bytes, kind: GGMLType) -> Float32:
    """How far apart the values are that each element could have: float32[num_values]; 0 if not quantised.

    IQ4_NL and IQ4_XS have levels of unequal distance; their step is the mean one.
    """
    if kind not in CODECS:
        return np.zeros(data.size // kind.block_bytes * kind.block_size, np.float32)
    steps = CODECS[kind].steps(data.view(CODECS[kind].layout))
    if kind in (GGMLType.IQ4_NL, GGMLType.IQ4_XS):
        steps = steps * np.float32(16)
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
        return to_half(values).view(np.uint8)
    if kind not in CODECS:
        raise ParameterError(f"{kind.name} tensors cannot be written ({_names()} can)")
    if not np.isfinite(values).all():
        raise ParameterError(f"values that are not finite cannot be stored as {kind.name}")
    blocks = np.zeros(values.size // kind.block_size, CODECS[kind].layout)
    CODECS[kind].encode(values.reshape(-1, kind.block_size), blocks)
    return blocks.view(np.uint8)


def _names() -> str:
    return ", ".join(kind.name for kind in CONVERTIBLE)


def _to_bf16(values: Float32) -> npt.NDArray[np.uint16]:
    """Round to nearest, ties to even, on the bits; not-a-numbers stay what they are, made quiet."""
    bits = values.view(np.uint32)
    rounded = bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))  # wraps for NaN only
    rounded = np.where(np.isnan(values), bits | np.uint32(0x00400000), rounded)
    return (rounded >> np.uint32(16)).astype("<u2")


CONVERTIBLE: Final = (GGMLType.F32, GGMLType.F16, GGMLType.BF16, *CODECS)

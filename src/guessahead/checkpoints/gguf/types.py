"""Facts of the GGUF format: tensor types with their block sizes, and the types of metadata values.

Source: the public GGUF specification (ggml-org/ggml, docs/gguf.md) and the block layouts of ggml.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

MAGIC: Final = b"GGUF"
DEFAULT_ALIGNMENT: Final = 32
ALIGNMENT_KEY: Final = "general.alignment"
FILE_TYPE_KEY: Final = "general.file_type"

Bytes: TypeAlias = npt.NDArray[np.uint8]
Scalar: TypeAlias = bool | int | float | str
MetadataValue: TypeAlias = Scalar | list[str] | npt.NDArray[np.generic]


class GGMLType(IntEnum):
    """Type of a tensor's elements, with the number it has in the file."""

    F32 = 0
    F16 = 1
    Q4_0 = 2
    Q4_1 = 3
    Q5_0 = 6
    Q5_1 = 7
    Q8_0 = 8
    Q2_K = 10
    Q3_K = 11
    Q4_K = 12
    Q5_K = 13
    Q6_K = 14
    IQ2_XXS = 16
    IQ2_XS = 17
    IQ3_XXS = 18
    IQ1_S = 19
    IQ4_NL = 20
    IQ3_S = 21
    IQ2_S = 22
    IQ4_XS = 23
    I8 = 24
    I16 = 25
    I32 = 26
    I64 = 27
    F64 = 28
    IQ1_M = 29
    BF16 = 30
    TQ1_0 = 34
    TQ2_0 = 35
    MXFP4 = 39

    @property
    def block_size(self) -> int:
        """Elements per block; the length of a row is a multiple of it."""
        return _BLOCKS[self][0]

    @property
    def block_bytes(self) -> int:
        """Bytes per block."""
        return _BLOCKS[self][1]

    def row_bytes(self, num_elements: int) -> int:
        """Bytes of a row of `num_elements` (a multiple of the block size)."""
        return num_elements // self.block_size * self.block_bytes


_BLOCKS: Final[dict[GGMLType, tuple[int, int]]] = {
    GGMLType.F32: (1, 4),
    GGMLType.F16: (1, 2),
    GGMLType.BF16: (1, 2),
    GGMLType.F64: (1, 8),
    GGMLType.I8: (1, 1),
    GGMLType.I16: (1, 2),
    GGMLType.I32: (1, 4),
    GGMLType.I64: (1, 8),
    GGMLType.Q4_0: (32, 18),
    GGMLType.Q4_1: (32, 20),
    GGMLType.Q5_0: (32, 22),
    GGMLType.Q5_1: (32, 24),
    GGMLType.Q8_0: (32, 34),
    GGMLType.IQ4_NL: (32, 18),
    GGMLType.MXFP4: (32, 17),
    GGMLType.Q2_K: (256, 84),
    GGMLType.Q3_K: (256, 110),
    GGMLType.Q4_K: (256, 144),
    GGMLType.Q5_K: (256, 176),
    GGMLType.Q6_K: (256, 210),
    GGMLType.IQ1_S: (256, 50),
    GGMLType.IQ1_M: (256, 56),
    GGMLType.IQ2_XXS: (256, 66),
    GGMLType.IQ2_XS: (256, 74),
    GGMLType.IQ2_S: (256, 82),
    GGMLType.IQ3_XXS: (256, 98),
    GGMLType.IQ3_S: (256, 110),
    GGMLType.IQ4_XS: (256, 136),
    GGMLType.TQ1_0: (256, 54),
    GGMLType.TQ2_0: (256, 66),
}


class ValueType(IntEnum):
    """Type of a metadata value, with the number it has in the file."""

    UINT8 = 0
    INT8 = 1
    UINT16 = 2
    INT16 = 3
    UINT32 = 4
    INT32 = 5
    FLOAT32 = 6
    BOOL = 7
    STRING = 8
    ARRAY = 9
    UINT64 = 10
    INT64 = 11
    FLOAT64 = 12


NUMPY_TYPES: Final[dict[ValueType, np.dtype[np.generic]]] = {
    ValueType.UINT8: np.dtype("u1"),
    ValueType.INT8: np.dtype("i1"),
    ValueType.UINT16: np.dtype("<u2"),
    ValueType.INT16: np.dtype("<i2"),
    ValueType.UINT32: np.dtype("<u4"),
    ValueType.INT32: np.dtype("<i4"),
    ValueType.FLOAT32: np.dtype("<f4"),
    ValueType.BOOL: np.dtype("?"),
    ValueType.UINT64: np.dtype("<u8"),
    ValueType.INT64: np.dtype("<i8"),
    ValueType.FLOAT64: np.dtype("<f8"),
}

# What `general.file_type` says of a file whose matrices are of this type (llama.cpp's llama_ftype).
FILE_TYPES: Final[dict[GGMLType, int]] = {
    GGMLType.F32: 0,
    GGMLType.F16: 1,
    GGMLType.Q4_0: 2,
    GGMLType.Q4_1: 3,
    GGMLType.Q8_0: 7,
    GGMLType.Q5_0: 8,
    GGMLType.Q5_1: 9,
    GGMLType.Q2_K: 10,
    GGMLType.Q3_K: 12,
    GGMLType.Q4_K: 15,
    GGMLType.Q5_K: 17,
    GGMLType.Q6_K: 18,
    GGMLType.IQ4_NL: 25,
    GGMLType.IQ4_XS: 30,
    GGMLType.BF16: 32,
}

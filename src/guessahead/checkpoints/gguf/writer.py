"""Writing GGUF files (version 3, little endian): whole or not at all."""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np

from guessahead.checkpoints.gguf.quantize import quantize
from guessahead.checkpoints.gguf.types import (
    ALIGNMENT_KEY,
    DEFAULT_ALIGNMENT,
    MAGIC,
    NUMPY_TYPES,
    Bytes,
    GGMLType,
    MetadataValue,
    ValueType,
)
from guessahead.errors import ModelError, ParameterError
from guessahead.files import replacing
from guessahead.types import Float32

_VERSION: Final = 3


@dataclass(frozen=True, slots=True)
class Encoded:
    """A metadata value copied from another file: its type and value as they stand there."""

    data: bytes


@dataclass(frozen=True, slots=True, eq=False)
class NewTensor:
    """A tensor to write. shape: row-major; chunks: called once, yields its bytes in order."""

    name: str
    type: GGMLType
    shape: tuple[int, ...]
    chunks: Callable[[], Iterable[Bytes]]

    @classmethod
    def of(cls, name: str, values: Float32, kind: GGMLType) -> NewTensor:
        """From float32 values, quantised to `kind` at once."""
        data = quantize(values, kind)
        return cls(name, kind, values.shape, lambda: (data,))

    @property
    def num_bytes(self) -> int:
        """Size in the file, without padding."""
        return self.type.row_bytes(self.shape[-1]) * math.prod(self.shape[:-1])


def write_gguf(
    path: str | os.PathLike[str],
    metadata: Mapping[str, MetadataValue | Encoded],
    tensors: Sequence[NewTensor],
) -> None:
    """Write a file; it appears under its name only when it is complete.

    metadata: bool, int (as uint32 where it fits, else the smallest of int32, uint64, int64), float
        (as float32), str, list of str, a numpy scalar or one-dimensional array (its type is kept), `Encoded`.
        The alignment is the default, whatever `metadata` says of it.
    Raises ModelError where the file cannot be written, ParameterError for values GGUF has no type for.
    """
    path = Path(path)
    records = {key: value for key, value in metadata.items() if key != ALIGNMENT_KEY}
    header = b"".join(_header(records, tensors))
    with _written(path) as stream:
        stream.write(header)
        for tensor in tensors:
            stream.pad()
            start = stream.num_bytes
            for chunk in tensor.chunks():
                stream.write(chunk.data)
            if stream.num_bytes - start != tensor.num_bytes:
                raise ParameterError(f"the tensor {tensor.name!r} got a wrong number of bytes")
        stream.pad()


def _header(metadata: Mapping[str, MetadataValue | Encoded], tensors: Sequence[NewTensor]) -> Iterator[bytes]:
    yield MAGIC + struct.pack("<IQQ", _VERSION, len(tensors), len(metadata))
    for key, value in metadata.items():
        yield _text(key)
        yield value.data if isinstance(value, Encoded) else _encode(key, value)
    offset = 0
    for tensor in tensors:
        yield _text(tensor.name)
        yield struct.pack("<I", len(tensor.shape))
        yield struct.pack(f"<{len(tensor.shape)}Q", *reversed(tensor.shape))
        yield struct.pack("<IQ", tensor.type, offset)
        offset += -(-tensor.num_bytes // DEFAULT_ALIGNMENT) * DEFAULT_ALIGNMENT


def _text(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack("<Q", len(encoded)) + encoded


def _encode(key: str, value: object) -> bytes:
    """Type and value of a metadata record."""
    if isinstance(value, str):
        return struct.pack("<I", ValueType.STRING) + _text(value)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        texts = b"".join(_text(item) for item in value)
        return struct.pack("<IIQ", ValueType.ARRAY, ValueType.STRING, len(value)) + texts
    if isinstance(value, np.ndarray) and value.ndim == 1:
        kind = _kind(key, value.dtype)
        prefix = struct.pack("<IIQ", ValueType.ARRAY, kind, value.size)
        return prefix + value.astype(NUMPY_TYPES[kind]).tobytes()
    if isinstance(value, bool | int | float | np.generic):
        array = np.asarray(value, _dtype(value))
        kind = _kind(key, array.dtype)
        return struct.pack("<I", kind) + array.astype(NUMPY_TYPES[kind]).tobytes()
    raise ParameterError(f"the metadata value {key!r} is of a type that GGUF has no room for")


def _dtype(value: object) -> np.dtype[np.generic] | None:
    """Storage for a plain Python number; None: what numpy makes of it."""
    if isinstance(value, float) and not isinstance(value, np.generic):
        return np.dtype(np.float32)
    if isinstance(value, int) and not isinstance(value, bool):
        for name in ("uint32", "int32", "uint64"):
            if np.iinfo(name).min <= value <= np.iinfo(name).max:
                return np.dtype(name)
    return None


def _kind(key: str, dtype: np.dtype[np.generic]) -> ValueType:
    for kind, candidate in NUMPY_TYPES.items():
        if candidate == dtype.newbyteorder("<"):
            return kind
    raise ParameterError(f"the metadata value {key!r} has the type {dtype}, which GGUF has not")


class _Counted:
    """Writes to a stream, which may be a pipe, and counts."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.num_bytes = 0

    def write(self, data: bytes | memoryview) -> None:
        self._stream.write(data)
        self.num_bytes += memoryview(data).nbytes

    def pad(self) -> None:
        self.write(bytes(-self.num_bytes % DEFAULT_ALIGNMENT))


@contextmanager
def _written(path: Path) -> Iterator[_Counted]:
    try:
        with replacing(path) as unfinished, unfinished.open("wb") as stream:
            yield _Counted(stream)
    except OSError as error:
        raise ModelError(f"{path}: cannot be written: {error.strerror or error}") from error

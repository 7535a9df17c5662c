"""The header of a GGUF file: one pass, bounded by the file's size.

The file is not trusted. Every length, count, offset and dimension is compared with the bytes that are
really there before anything is allocated or followed, so a damaged file costs at most time and memory
linear in its own size and ends in a ModelError of one line.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final, NoReturn

import numpy as np

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
from guessahead.errors import ModelError

_U32: Final = struct.Struct("<I")
_U64: Final = struct.Struct("<Q")
HEADER_BYTES: Final = 24
_MIN_VALUE_BYTES: Final = 8 + 1 + 4 + 1  # key length, key, type, value
_MIN_TENSOR_BYTES: Final = 8 + 1 + 4 + 8 + 4 + 8  # name length, name, number of dimensions, one, type, offset
_MAX_RECORDS: Final = 1 << 17  # metadata values, tensors: real files have at most thousands
_MAX_STRINGS: Final = 1 << 24  # strings of one array: real vocabularies have at most 300,000
_MAX_NAME_BYTES: Final = 65535
_MAX_DIMENSIONS: Final = 4


@dataclass(frozen=True, slots=True, eq=False)
class TensorInfo:
    """A tensor of the file.

    shape: row-major, the longest-stride dimension first: (rows n, columns k) for a matrix. (The file
        stores the reverse, and calls it ne.)
    data: its bytes, uint8[num_bytes], a read-only view of the mapped file.
    """

    name: str
    type: GGMLType
    shape: tuple[int, ...]
    num_bytes: int
    data: Bytes


class Header:
    """The parser: a cursor over the mapped file, and what it has found so far."""

    def __init__(self, path: Path, mapped: mmap.mmap) -> None:
        self._path = path
        self._map = mapped
        self._size = len(mapped)
        self._position = 0
        self.metadata: dict[str, MetadataValue] = {}
        self.encoded: dict[str, bytes] = {}
        self.tensors: dict[str, TensorInfo] = {}
        self.version = self._read_version()
        num_tensors = self._count("tensors", _MIN_TENSOR_BYTES, _MAX_RECORDS)
        num_values = self._count("metadata values", _MIN_VALUE_BYTES, _MAX_RECORDS)
        for _ in range(num_values):
            self._read_metadata()
        self._read_tensors(num_tensors)

    def _fail(self, what: str) -> NoReturn:
        raise ModelError(f"{self._path}: damaged GGUF file: {what}")

    # Primitive values. Each checks that its bytes are there.

    def _take(self, num_bytes: int, what: str) -> int:
        """Advance over `num_bytes`; the position before."""
        start = self._position
        if num_bytes > self._size - start:
            self._fail(f"it ends inside {what} (at byte {start} of {self._size})")
        self._position = start + num_bytes
        return start

    def _u32(self, what: str) -> int:
        value: int = _U32.unpack_from(self._map, self._take(4, what))[0]
        return value

    def _u64(self, what: str) -> int:
        value: int = _U64.unpack_from(self._map, self._take(8, what))[0]
        return value

    def _count(self, what: str, min_bytes: int, limit: int) -> int:
        """A number of things that take at least `min_bytes` each: never more than fit into the rest."""
        count = self._u64(f"the number of {what}")
        if count > limit or count * min_bytes > self._size - self._position:
            self._fail(f"it claims {count} {what}, more than it can hold")
        return count

    def _string(self, what: str) -> str:
        num_bytes = self._u64(what)
        start = self._take(num_bytes, what)
        try:
            return str(self._map[start : start + num_bytes], "utf-8")
        except UnicodeDecodeError:
            self._fail(f"{what} is not UTF-8 text")

    def _name(self, what: str) -> str:
        start = self._position
        name = self._string(what)
        if not 0 < self._position - start - 8 <= _MAX_NAME_BYTES:
            self._fail(f"{what} is empty or longer than {_MAX_NAME_BYTES} bytes")
        return name

    # The parts of the header, in order.

    def _read_version(self) -> int:
        if self._map[:4] != MAGIC:
            raise ModelError(f"{self._path}: not a GGUF file")
        self._position = 4
        version = self._u32("the version")
        if version and version & 0xFFFF == 0:
            raise ModelError(f"{self._path}: a big-endian GGUF file; only little-endian ones can be read")
        if version not in (2, 3):
            raise ModelError(f"{self._path}: GGUF version {version} is not supported (2 and 3 are)")
        return version

    def _read_metadata(self) -> None:
        key = self._name("a metadata key")
        if key in self.metadata:
            self._fail(f"the metadata key {shown(key)} occurs twice")
        start = self._position
        self.metadata[key] = self._value(self._value_type(key), key)
        self.encoded[key] = self._map[start : self._position]

    def _value_type(self, key: str) -> ValueType:
        number = self._u32(f"the type of {shown(key)}")
        try:
            return ValueType(number)
        except ValueError:
            self._fail(f"{shown(key)} has the unknown value type {number}")

    def _value(self, kind: ValueType, key: str) -> MetadataValue:
        what = f"the value of {shown(key)}"
        if kind is ValueType.STRING:
            return self._string(what)
        if kind is ValueType.ARRAY:
            element = self._value_type(key)
            if element is ValueType.ARRAY:
                self._fail(f"{shown(key)} is an array of arrays, which is not supported")
            return self._strings(what) if element is ValueType.STRING else self._numbers(element, what)
        value: bool | int | float = self._array(kind, 1, what)[0].item()
        return value

    def _numbers(self, kind: ValueType, what: str) -> np.ndarray[tuple[int], np.dtype[np.generic]]:
        count = self._count(f"elements in {what}", NUMPY_TYPES[kind].itemsize, self._size)
        return self._array(kind, count, what)

    def _array(self, kind: ValueType, count: int, what: str) -> np.ndarray[tuple[int], np.dtype[np.generic]]:
        dtype = NUMPY_TYPES[kind]
        start = self._take(count * dtype.itemsize, what)
        raw = self._map[start : self._position]
        if kind is ValueType.BOOL and raw.strip(b"\0\1"):
            self._fail(f"{what} has a truth value that is neither 0 nor 1")
        return np.frombuffer(raw, dtype)

    def _strings(self, what: str) -> list[str]:
        """An array of strings. One tight loop: vocabularies have hundreds of thousands."""
        count = self._count(f"strings in {what}", 8, _MAX_STRINGS)
        mapped, position, size, unpack = self._map, self._position, self._size, _U64.unpack_from
        strings: list[str] = []
        append = strings.append
        try:
            for _ in range(count):
                start = position + 8
                position = start + unpack(mapped, position)[0]
                if position > size:
                    break
                append(str(mapped[start:position], "utf-8"))
        except struct.error:
            position = size + 1
        except UnicodeDecodeError:
            self._fail(f"string {len(strings)} of {what} is not UTF-8 text")
        if position > size:
            self._fail(f"it ends inside string {len(strings)} of {what}")
        self._position = position
        return strings

    def _read_tensors(self, num_tensors: int) -> None:
        records = [self._read_tensor_record() for _ in range(num_tensors)]
        alignment = self._alignment()
        base = -(-self._position // alignment) * alignment
        data = np.frombuffer(self._map, np.uint8)
        for record in records:
            if record.name in self.tensors:
                self._fail(f"the tensor {shown(record.name)} occurs twice")
            if record.offset % alignment:
                self._fail(f"the tensor {shown(record.name)} is not aligned to {alignment} bytes")
            start = base + record.offset
            if start + record.num_bytes > self._size:
                self._fail(
                    f"the tensor {shown(record.name)} needs bytes {start} to {start + record.num_bytes}, "
                    f"but the file has {self._size} (incomplete download?)"
                )
            view = data[start : start + record.num_bytes]
            self.tensors[record.name] = TensorInfo(
                record.name, record.type, record.shape, record.num_bytes, view
            )
        self._check_whole(records, base, alignment)

    def _alignment(self) -> int:
        value = self.metadata.get(ALIGNMENT_KEY, DEFAULT_ALIGNMENT)
        if type(value) is not int or value <= 0 or value & (value - 1):
            self._fail(f"{ALIGNMENT_KEY} is not a power of two")
        return value

    def _read_tensor_record(self) -> _Record:
        name = self._name("a tensor name")
        what = f"the tensor {shown(name)}"
        num_dimensions = self._u32(what)
        if not 1 <= num_dimensions <= _MAX_DIMENSIONS:
            self._fail(f"{what} has {num_dimensions} dimensions (1 to {_MAX_DIMENSIONS} are allowed)")
        shape = tuple(self._u64(what) for _ in range(num_dimensions))[::-1]
        number = self._u32(what)
        try:
            kind = GGMLType(number)
        except ValueError:
            self._fail(f"{what} has the unknown type {number}")
        if 0 in shape:
            self._fail(f"{what} has a dimension of 0")
        if shape[-1] % kind.block_size:
            self._fail(
                f"{what} has rows of {shape[-1]}, not a multiple of {kind.name}'s block of {kind.block_size}"
            )
        num_bytes = kind.row_bytes(shape[-1])
        for dimension in shape[:-1]:
            num_bytes *= dimension  # at most 2^260 or so: Python integers do not overflow
        return _Record(name, kind, shape, num_bytes, self._u64(what))

    def _check_whole(self, records: list[_Record], base: int, alignment: int) -> None:
        """Tensors neither overlap nor leave data between or behind them that belongs to none.

        (Such data is there where the header claims fewer tensors than the file has.)
        """
        ordered = sorted(records, key=lambda record: record.offset)
        for first, second in pairwise(ordered):
            if first.offset + first.num_bytes > second.offset:
                self._fail(f"the tensors {shown(first.name)} and {shown(second.name)} overlap")
        position, before = 0, "the header"
        for record in ordered:
            if record.offset - position >= alignment:
                self._fail(f"{record.offset - position} bytes behind {before} belong to no tensor")
            position, before = record.offset + record.num_bytes, shown(record.name)
        unclaimed = self._size - base - position
        if unclaimed >= alignment:
            self._fail(f"{unclaimed} bytes behind {before} belong to no tensor (incomplete header?)")


@dataclass(frozen=True, slots=True)
class _Record:
    """A tensor's entry in the header; offset counts from the start of the data section."""

    name: str
    type: GGMLType
    shape: tuple[int, ...]
    num_bytes: int
    offset: int


def shown(name: str) -> str:
    """A name from the file, fit for a one-line message."""
    return repr(name if len(name) <= 60 else name[:57] + "...")

"""The tensors of safetensors files, memory-mapped. The files are not trusted (see gguf/header.py).

Format: an 8-byte little-endian length, a JSON header of that length (name -> dtype, shape, data_offsets from
the header's end), the data. A folder holds model.safetensors, or several files and an index of the file of
each tensor.
"""

from __future__ import annotations

import math
import mmap
import re
import struct
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np

from guessahead.checkpoints.folders.names import is_computed
from guessahead.checkpoints.gguf import GGMLType, TensorInfo
from guessahead.checkpoints.gguf.types import Bytes
from guessahead.errors import ModelError
from guessahead.files import map_file, parse_json, read_json

SINGLE: Final = "model.safetensors"
INDEX: Final = "model.safetensors.index.json"
_PART: Final = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.safetensors", re.DOTALL)
_MAX_HEADER_BYTES: Final = 100 << 20  # the limit that the format's own library sets
_MAX_DIMENSIONS: Final = 4
_KINDS: Final = {"F32": GGMLType.F32, "F16": GGMLType.F16, "BF16": GGMLType.BF16}
_OTHER_BYTES: Final = {"F64": 8, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}


def read_weights(folder: Path) -> dict[str, TensorInfo]:
    """Name -> tensor (F32, F16 or BF16) of a folder.

    As in transformers, model.safetensors has precedence over an index, and all tensors in the index's files
    count. Without either, files with numbered names are read.
    """
    if (folder / SINGLE).exists():
        return read_file(folder / SINGLE)
    if not (folder / INDEX).exists():
        return _joined(folder, _numbered(folder))
    index = folder / INDEX
    places = read_json(index).get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(name, str) for name in places.values()):
        raise ModelError(f"{index}: damaged: it has no weight_map from tensors to files")
    names = list(dict.fromkeys(places.values()))
    for name in names:
        if not name.endswith(".safetensors") or Path(name).name != name:
            raise ModelError(f"{index}: {name[:80]!r} is not the name of a safetensors file beside it")
    found = _joined(folder, names)
    for tensor, name in places.items():
        if tensor not in found and not is_computed(tensor):
            raise ModelError(f"{index}: {name} does not have {tensor[:80]!r}, which is listed there")
    return found


def _joined(folder: Path, names: Iterable[str]) -> dict[str, TensorInfo]:
    """The tensors of several files; each must be in one file only."""
    found: dict[str, TensorInfo] = {}
    for name in names:
        for tensor, value in read_file(folder / name).items():
            if found.setdefault(tensor, value) is not value:
                raise ModelError(f"{folder / name}: the tensor {tensor[:60]!r} is also in another file")
    return found


def _numbered(folder: Path) -> list[str]:
    """The names of a complete set of numbered files (NAME-00001-of-00002.safetensors)."""
    sets = {
        (match[1], int(match[3]))
        for path in folder.glob("*.safetensors")
        if (match := _PART.fullmatch(path.name)) and int(match[3]) < 1 << 14
    }
    if len(sets) != 1:
        raise ModelError(f"{folder}: there is neither {SINGLE} nor {INDEX}")
    stem, count = sets.pop()
    names = [f"{stem}-{i + 1:05}-of-{count:05}.safetensors" for i in range(count)]
    for name in names:
        if not (folder / name).exists():
            raise ModelError(f"{folder}: a part of the weights is missing: {name} (of {count} files)")
    return names


def read_file(path: Path) -> dict[str, TensorInfo]:
    """Name -> tensor of one safetensors file. Errors: ModelError for other types than F32, F16 and BF16."""
    return _Header(path, map_file(path, "safetensors", 10)).tensors


class _Header:
    """The header of one file, checked against its data."""

    def __init__(self, path: Path, mapped: mmap.mmap) -> None:
        self._path = path
        length = struct.unpack_from("<Q", mapped)[0]
        if length > min(_MAX_HEADER_BYTES, len(mapped) - 8):
            self._fail(f"its header has {length} bytes, which is too many")
        self._data = np.frombuffer(mapped, np.uint8)[8 + length :]
        self._misaligned = 8 + length
        records: Mapping[str, Any] = parse_json(mapped[8 : 8 + length], path)
        found = [self._record(name, record) for name, record in records.items() if name != "__metadata__"]
        for (_, end, first), (start, _, second) in pairwise(sorted(found, key=lambda each: each[:2])):
            if start < end:
                self._fail(f"the tensors {first[:60]!r} and {second[:60]!r} overlap")
        found = [each for each in found if not is_computed(each[2])]
        for _, _, name in found:
            if records[name]["dtype"] not in _KINDS:
                dtype, known = records[name]["dtype"][:20], ", ".join(_KINDS)
                raise ModelError(
                    f"{path}: the tensor {name[:60]!r} is {dtype}, which is not supported (only {known})"
                )
        self.tensors = {name: self._tensor(name, records[name], start, end) for start, end, name in found}

    def _fail(self, what: str) -> NoReturn:
        raise ModelError(f"{self._path}: damaged safetensors file: {what}")

    def _record(self, name: str, record: object) -> tuple[int, int, str]:
        """(first byte, byte after the last, name) of a tensor."""
        shown = f"the tensor {name[:60]!r}"
        if not isinstance(record, dict) or not {"dtype", "shape", "data_offsets"} <= record.keys():
            self._fail(f"{shown} lacks dtype, shape or data_offsets")
        shape, offsets, dtype = record["shape"], record["data_offsets"], record["dtype"]
        if not _are_counts(shape) or not _are_counts(offsets) or len(offsets) != 2:
            self._fail(f"{shown} has a shape or offsets that are not lists of whole numbers")
        start, end = offsets
        if not start <= end <= len(self._data):
            self._fail(f"{shown} needs bytes {start} to {end} of {len(self._data)} (incomplete download?)")
        if not isinstance(dtype, str):
            self._fail(f"{shown} has a dtype that is not a string")
        size = _KINDS[dtype].block_bytes if dtype in _KINDS else _OTHER_BYTES.get(dtype)
        if size is not None and (len(shape) > _MAX_DIMENSIONS or math.prod(shape) * size != end - start):
            self._fail(f"{shown} has {end - start} bytes, which does not fit its shape {tuple(shape)[:5]}")
        return start, end, name

    def _tensor(self, name: str, record: Mapping[str, Any], start: int, end: int) -> TensorInfo:
        kind = _KINDS[record["dtype"]]
        data: Bytes = self._data[start:end]
        if (self._misaligned + start) % kind.block_bytes:
            data = data.copy()
        return TensorInfo(name, kind, tuple(record["shape"]), end - start, data)


def _are_counts(values: object) -> bool:
    return isinstance(values, list) and all(type(value) is int and value >= 0 for value in values)

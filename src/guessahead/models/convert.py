"""Conversion of a GGUF file to another precision."""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from guessahead.checkpoints.gguf import (
    CONVERTIBLE,
    Encoded,
    GGMLType,
    GGUFFile,
    MetadataValue,
    NewTensor,
    TensorInfo,
    dequantize,
    quantize,
    step_sizes,
    write_gguf,
)
from guessahead.checkpoints.gguf.types import FILE_TYPE_KEY, FILE_TYPES, Bytes
from guessahead.errors import ModelError, ParameterError
from guessahead.files import check_writable

_CHUNK_VALUES: Final = 1 << 20  # values held as float32 at a time

# The format of a matrix whose rows are not a multiple of the requested format's block.
_FALLBACKS: Final = {
    GGMLType.Q2_K: GGMLType.IQ4_NL,
    GGMLType.Q3_K: GGMLType.IQ4_NL,
    GGMLType.IQ4_XS: GGMLType.IQ4_NL,
    GGMLType.Q4_K: GGMLType.Q5_0,
    GGMLType.Q5_K: GGMLType.Q5_1,
    GGMLType.Q6_K: GGMLType.Q8_0,
}

# Called with (tensors done, number of tensors, name of the next one).
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class Conversion:
    """The result of a conversion. fallbacks: matrices that do not fit the format -> the one they got."""

    path: Path
    type: GGMLType
    num_tensors: int
    fallbacks: dict[str, GGMLType]


def convert(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    kind: GGMLType | str,
    *,
    noise_seed: int | None = None,
    progress: Progress | None = None,
) -> Conversion:
    """Write `source` to `target` with all matrices as `kind` (a GGMLType or its name, see CONVERTIBLE).

    One-dimensional tensors become F32, all metadata is kept. A matrix that already has the format is copied.
    It needs some tens of megabytes of memory.
    noise_seed: add noise to the matrices, uniform within half a step of their (quantised) format: a possible
        model before quantisation, for tests.
    Raises ModelError if the source cannot be read or the target cannot be written, ParameterError for a
    format that cannot be written, for noise on a source that is not quantised, and for target == source.
    """
    kind = parse_type(kind)
    with GGUFFile.open(source) as file:
        _check(file, Path(target), noise_seed)
        _check_target(Path(target))
        metadata: dict[str, MetadataValue | Encoded] = {
            key: Encoded(value) for key, value in file.encoded.items()
        }
        metadata[FILE_TYPE_KEY] = FILE_TYPES[kind]
        types = {name: _target_type(tensor, kind) for name, tensor in file.tensors.items()}
        job = _Job(file, noise_seed, progress)
        tensors = [job.tensor(tensor, types[name]) for name, tensor in file.tensors.items()]
        write_gguf(target, metadata, tensors)
        fallbacks = {
            name: types[name]
            for name, tensor in file.tensors.items()
            if len(tensor.shape) > 1 and types[name] is not kind
        }
    return Conversion(Path(target), kind, len(tensors), fallbacks)


def parse_type(kind: GGMLType | str) -> GGMLType:
    """A format that can be written, by name in any case. Raises ParameterError with the list of them."""
    name = kind.name if isinstance(kind, GGMLType) else kind.upper()
    for candidate in CONVERTIBLE:
        if candidate.name == name:
            return candidate
    raise ParameterError(
        f"{kind!r} is not a format that can be written; these are: {', '.join(t.name for t in CONVERTIBLE)}"
    )


def _check(file: GGUFFile, target: Path, noise_seed: int | None) -> None:
    if target.exists() and target.samefile(file.path):
        raise ParameterError(f"{target}: the target of a conversion must not be its source")
    for tensor in file.tensors.values():
        if tensor.type not in CONVERTIBLE:
            raise ModelError(
                f"{file.path}: {tensor.name!r} has the format {tensor.type.name}, which cannot be converted"
            )
    if noise_seed is not None and all(tensor.type.block_size == 1 for tensor in file.tensors.values()):
        raise ParameterError(f"{file.path}: noise needs a quantised source, whose steps give its size")


def _check_target(target: Path) -> None:
    try:
        check_writable(target)
    except (OSError, ValueError) as error:  # ValueError: a null character in the path
        raise ModelError(f"{target}: cannot be written: {getattr(error, 'strerror', error)}") from None


def _target_type(tensor: TensorInfo, kind: GGMLType) -> GGMLType:
    if len(tensor.shape) == 1:
        return GGMLType.F32
    if tensor.shape[-1] % kind.block_size == 0:
        return kind
    fallback = _FALLBACKS.get(kind, GGMLType.F16)
    return fallback if tensor.shape[-1] % fallback.block_size == 0 else GGMLType.F16


@dataclass(slots=True)
class _Job:
    """Creates the tensors of one conversion; each is computed when it is written."""

    file: GGUFFile
    noise_seed: int | None
    progress: Progress | None
    num_done: int = 0

    def tensor(self, tensor: TensorInfo, kind: GGMLType) -> NewTensor:
        return NewTensor(tensor.name, kind, tensor.shape, lambda: self._chunks(tensor, kind))

    def _chunks(self, tensor: TensorInfo, kind: GGMLType) -> Iterator[Bytes]:
        if self.progress:
            self.progress(self.num_done, len(self.file.tensors), tensor.name)
        self.num_done += 1
        noisy = self.noise_seed is not None and tensor.type.block_size > 1
        if tensor.type is kind and not noisy:
            yield tensor.data
            return
        random = np.random.default_rng([self.noise_seed or 0, zlib.crc32(tensor.name.encode())])
        for data in _row_chunks(tensor):
            values = dequantize(data, tensor.type)
            if noisy:
                values += step_sizes(data, tensor.type) * random.uniform(-0.5, 0.5, values.size)
            try:
                yield quantize(values, kind)
            except ParameterError as error:
                raise ModelError(f"{self.file.path}: {tensor.name!r}: {error}") from error


def _row_chunks(tensor: TensorInfo) -> Iterator[Bytes]:
    """The tensor's bytes, some rows at a time."""
    row_bytes = tensor.type.row_bytes(tensor.shape[-1])
    step = max(1, _CHUNK_VALUES // tensor.shape[-1]) * row_bytes
    for start in range(0, math.prod(tensor.shape[:-1]) * row_bytes, step):
        yield tensor.data[start : start + step]

"""Reading GGUF files: one pass over the header, bounded by the file's size; tensors stay memory-mapped.

A model may lie in several files (`llama-gguf-split`): all are read when the first is opened.

The file is not trusted. Every length, count, offset and dimension is compared with the bytes that are
really there before anything is allocated or followed, so a damaged file costs at most time and memory
linear in its own size and ends in a ModelError of one line.
"""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType

from guessahead.errors import ModelError
from guessahead.models.gguf.header import HEADER_BYTES, Header, TensorInfo, quoted
from guessahead.models.gguf.parts import check_number_of_tensors, check_part, other_parts, without_split
from guessahead.models.gguf.pointers import POINTER_BYTES, refuse_pointer
from guessahead.models.gguf.types import (
    MetadataValue,
)


class GGUFFile:
    """An open GGUF file (versions 2 and 3, little endian).

    metadata: key -> bool, int, float, str, list of str, or a one-dimensional numpy array.
    encoded: key -> type and value as they stand in the file, for copying them unchanged.
    tensors: name -> TensorInfo, in the file's order.
    """

    def __init__(self, path: Path, header: Header) -> None:
        self.path = path
        self.version = header.version
        self.metadata: Mapping[str, MetadataValue] = MappingProxyType(without_split(header.metadata))
        self.encoded: Mapping[str, bytes] = MappingProxyType(without_split(header.encoded))
        self.tensors: Mapping[str, TensorInfo] = MappingProxyType(header.tensors)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> GGUFFile:
        """Map the file and read its header. Raises ModelError where it cannot be read or makes no sense."""
        path = Path(path)
        header = Header(path, _map(path))
        for number, other in other_parts(path, header.metadata):
            part = Header(other, _map(other))
            check_part(other, number, header.metadata, part.metadata)
            for name, tensor in part.tensors.items():
                if header.tensors.setdefault(name, tensor) is not tensor:
                    raise ModelError(f"{other}: the tensor {quoted(name)} is in an earlier part, too")
        check_number_of_tensors(path, header.metadata, len(header.tensors))
        return cls(path, header)

    def close(self) -> None:
        """Let go of the file. Views that were handed out stay valid; the last one to go unmaps it."""
        self.tensors = MappingProxyType({})

    def __enter__(self) -> GGUFFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _map(path: Path) -> mmap.mmap:
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait for its other end
            raise ModelError(f"{path}: not a file")
        with path.open("rb") as stream:
            num_bytes = os.fstat(stream.fileno()).st_size
            refuse_pointer(path, stream.read(POINTER_BYTES))
            if num_bytes < HEADER_BYTES:
                raise ModelError(f"{path}: not a GGUF file: only {num_bytes} bytes long")
            return mmap.mmap(stream.fileno(), num_bytes, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:  # ValueError: a null character in the path
        raise ModelError(f"{path}: cannot be read: {getattr(error, 'strerror', error)}") from error

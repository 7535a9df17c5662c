"""Reading GGUF files: tensors stay memory-mapped, and a model in several files is read whole."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType

from guessahead.checkpoints.gguf.header import HEADER_BYTES, Header, TensorInfo, shown
from guessahead.checkpoints.gguf.parts import check_number_of_tensors, check_part, other_parts, without_split
from guessahead.checkpoints.gguf.types import MetadataValue
from guessahead.errors import ModelError
from guessahead.files import map_file

__all__ = ["GGUFFile", "TensorInfo"]


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
        header = Header(path, map_file(path, "GGUF", HEADER_BYTES))
        for number, other in other_parts(path, header.metadata):
            part = Header(other, map_file(other, "GGUF", HEADER_BYTES))
            check_part(other, number, header.metadata, part.metadata)
            for name, tensor in part.tensors.items():
                if header.tensors.setdefault(name, tensor) is not tensor:
                    raise ModelError(f"{other}: the tensor {shown(name)} is in an earlier part, too")
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

"""Mapping model files into memory."""

from __future__ import annotations

import mmap
import os
import stat
from pathlib import Path
from typing import Final

from guessahead.errors import ModelError

_POINTER: Final = b"version https://git-lfs.github.com/spec/"


def map_file(path: Path, kind: str, least: int) -> mmap.mmap:
    """The whole of a regular file, read-only. kind: what it should be, with at least `least` bytes.

    Raises ModelError, one line.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait for its other end
            raise ModelError(f"{path}: not a file")
        with path.open("rb") as stream:
            num_bytes = os.fstat(stream.fileno()).st_size
            refuse_pointer(path, stream.read(len(_POINTER)))
            if num_bytes < least:
                raise ModelError(f"{path}: not a {kind} file: only {num_bytes} bytes long")
            return mmap.mmap(stream.fileno(), num_bytes, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:  # ValueError: a null character in the path, a file cut meanwhile
        raise ModelError(f"{path}: cannot be read: {getattr(error, 'strerror', error)}") from None


def refuse_pointer(path: Path, beginning: bytes) -> None:
    """Raise a ModelError where a file begins as the pointers do that Git leaves in place of large files."""
    if beginning.startswith(_POINTER):
        raise ModelError(f"{path}: only a Git LFS pointer, not the file itself; fetch it with `git lfs pull`")

"""Pointers that Git leaves in place of large files that were not fetched."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from guessahead.errors import ModelError

_BEGINNING: Final = b"version https://git-lfs.github.com/spec/"
POINTER_BYTES: Final = len(_BEGINNING)


def refuse_pointer(path: Path, beginning: bytes) -> None:
    """Raise a ModelError where a file begins as a pointer does."""
    if beginning.startswith(_BEGINNING):
        raise ModelError(f"{path}: only a Git LFS pointer, not the file itself; fetch it with `git lfs pull`")

"""Files of the user: where they are kept, and how they are written, whole or not at all."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import platformdirs

CACHE_VARIABLE: Final = "GUESSAHEAD_CACHE"


def cache_dir() -> Path:
    """Where models, heads and measured costs are kept: $GUESSAHEAD_CACHE, or the user's cache directory."""
    return Path(os.environ.get(CACHE_VARIABLE) or platformdirs.user_cache_dir("guessahead"))


def write_whole(path: Path, data: str | bytes) -> None:
    """Write a file so that there is always a whole one: beside it first, then renamed over it.

    Its mode stays, and so does a symbolic link to it; devices and pipes are written directly. Raises OSError.
    """
    content = data.encode() if isinstance(data, str) else data
    with replacing(path) as unfinished:
        unfinished.write_bytes(content)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path to write to, which replaces `path` at the end of the block, and is gone after an error.

    Where `path` is a device or a pipe, it is `path` itself.
    """
    target = Path(os.path.realpath(path))
    mode = _mode(target)
    if mode is not None and not stat.S_ISREG(mode):
        yield target
        return
    unfinished = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        yield unfinished
        if mode is not None:
            unfinished.chmod(stat.S_IMODE(mode))
        os.replace(unfinished, target)
    finally:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)


def _mode(path: Path) -> int | None:
    """Type and permissions; None where there is nothing yet."""
    try:
        return path.stat().st_mode
    except OSError:
        return None

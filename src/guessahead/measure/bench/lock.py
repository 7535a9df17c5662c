"""One timing run at a time: two at once would measure each other."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from typing import Final

from guessahead.errors import InputError
from guessahead.files import cache_dir

_FILE: Final = "timing.lock"


@contextlib.contextmanager
def alone(tell: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock of all timing runs of this user (a file in the user cache), waiting for it if need be.

    tell: gets one line if there is a run to wait for. The lock goes with the process: one that is killed
    leaves none behind. Not to be taken twice by one process: it would wait for itself.
    """
    path = cache_dir() / _FILE
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        stream = path.open("a+", encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}") from error
    with stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            stream.seek(0)
            holder = stream.read().strip() or "unknown"
            tell(f"another timing run (process {holder}) holds {path}: waiting for it to end")
            fcntl.flock(stream, fcntl.LOCK_EX)
        stream.truncate(0)
        stream.write(str(os.getpid()))
        stream.flush()
        yield

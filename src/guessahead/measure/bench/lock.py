"""The lock of timing runs: two at a time would disturb each other."""

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
    """Hold the lock of all timing runs of this user (a file in the user cache); wait for it if necessary.

    tell: called with one line if another run holds it. The lock ends with its process, also a killed one. A
        process must not take it twice: it would wait for itself.
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

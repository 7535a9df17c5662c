"""The lock of timing runs: two at a time would disturb each other."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TextIO

from guessahead.files import cache_dir

_FILE: Final = "timing.lock"


@contextlib.contextmanager
def alone(notice: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock of all timing runs of this user (a file in the user cache); wait for it if necessary.

    notice: called with one line if another run holds it, or if the cache cannot hold a lock: then no run
        waits.
    The lock ends with its process, also a killed one. A process must not take it twice: it would wait for
    itself.
    """
    path = cache_dir() / _FILE
    with contextlib.ExitStack() as opened:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _take(opened.enter_context(path.open("a+", encoding="utf-8", buffering=1)), path, notice)
        except OSError as error:  # a cache that is read-only, or has no locks
            notice(f"no lock: another timing run would not wait for this one ({path}: {error.strerror})")
        yield


def _take(stream: TextIO, path: Path, notice: Callable[[str], None]) -> None:
    """Lock the file and write down who holds it. Raises OSError."""
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        stream.seek(0)
        holder = stream.read().strip() or "unknown"
        notice(f"another timing run (process {holder}) holds {path}: waiting for it to end")
        fcntl.flock(stream, fcntl.LOCK_EX)
    with contextlib.suppress(OSError):  # a full disk; only a note
        stream.truncate(0)
        stream.write(str(os.getpid()))
        stream.flush()

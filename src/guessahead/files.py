"""Files: the directory of the user's files, reading with limits, and atomic writing."""

from __future__ import annotations

import codecs
import contextlib
import errno
import json
import mmap
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import platformdirs

from guessahead.errors import ModelError

CACHE_VARIABLE: Final = "GUESSAHEAD_CACHE"
_DESCRIPTOR: Final = re.compile(r"/dev/(stdin|stdout|stderr)|(?:/dev|/proc/self)/fd/([0-9]+)")
_POINTER: Final = b"version https://git-lfs.github.com/spec/"
_BYTE_ORDER_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_READ_BYTES: Final = 64 << 20
_MAX_JSON_BYTES: Final = 256 << 20  # tokenizer.json of the largest vocabularies: some 30 MB


def cache_dir() -> Path:
    """The directory of models, heads and measured costs: $GUESSAHEAD_CACHE, or the user's cache directory."""
    if named := os.environ.get(CACHE_VARIABLE):
        return Path(named)
    usual = Path(platformdirs.user_cache_dir("guessahead"))
    return usual if usual.is_absolute() else Path(os.devnull) / "guessahead"  # no home: nothing is kept


def write_whole(path: Path, data: str | bytes) -> None:
    """Write a file atomically: to a temporary file beside it, which is then renamed over it.

    Its mode and a symbolic link to it are kept; devices and pipes are written directly. Raises OSError.
    """
    content = data.encode() if isinstance(data, str) else data
    if opened := _DESCRIPTOR.fullmatch(os.fspath(path)):
        number = ("stdin", "stdout", "stderr").index(opened[1]) if opened[1] else int(opened[2])
        with open(number, "ab", closefd=False) as stream:  # a new file would not be the one that is open
            stream.write(content)
        return
    with replacing(path) as unfinished:
        unfinished.write_bytes(content)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path to write to; it replaces `path` at the end of the block and is removed after an error.

    It is `path` itself for a device or a pipe, and for a file in a folder that takes no new files.
    """
    facts = _facts(path)
    if facts is not None and not os.access(path, os.W_OK):  # a new file could replace it, but is not meant to
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    target = Path(os.path.realpath(path))  # of no use for /dev/fd/3, if that is a pipe
    if facts is not None and (not stat.S_ISREG(facts.st_mode) or not os.access(target.parent, os.W_OK)):
        yield path
        return
    # Not named after the target, whose name may be as long as names can be.
    unfinished = target.with_name(f".guessahead-{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        unfinished.touch()
        mode = (facts or unfinished.stat()).st_mode
        yield unfinished
        unfinished.chmod(stat.S_IMODE(mode))  # some writers put a file of theirs in its place
        _move(unfinished, target)
    finally:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)


def check_writable(path: Path) -> None:
    """Raise OSError if `replacing` could not write this file. Changes nothing."""
    facts = _facts(path)
    target = Path(os.path.realpath(path))
    if facts is not None and stat.S_ISDIR(facts.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if facts is not None and not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    if facts is None or (stat.S_ISREG(facts.st_mode) and os.access(target.parent, os.W_OK)):
        with tempfile.TemporaryFile(dir=target.parent):
            pass


def _facts(path: Path) -> os.stat_result | None:
    """Type, mode and owner; None if the file does not exist. Raises OSError if that cannot be known."""
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _move(unfinished: Path, target: Path) -> None:
    try:
        os.replace(unfinished, target)
    except OSError as error:
        if error.errno not in (errno.EBUSY, errno.EPERM, errno.EACCES) or not target.exists():
            raise
        # A file that a container mounts, or of another user in a sticky folder: it can only be written.
        shutil.copyfile(unfinished, target)


def map_file(path: Path, kind: str, least: int) -> mmap.mmap:
    """The mapping of a regular file, for reading. kind: for messages; it needs at least `least` bytes.

    Where the file system has no mappings, the file is read. Raises ModelError, one line.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would block
            raise ModelError(f"{path}: not a file")
        with path.open("rb") as stream:
            num_bytes = os.fstat(stream.fileno()).st_size
            refuse_pointer(path, stream.read(len(_POINTER)))
            if num_bytes < least:
                raise ModelError(f"{path}: not a {kind} file: only {num_bytes} bytes long")
            return _mapped(stream.fileno(), num_bytes)
    except (OSError, ValueError) as error:  # ValueError: a null character in the path, a file cut meanwhile
        raise ModelError(f"{path}: cannot be read: {getattr(error, 'strerror', error)}") from None


def _mapped(file: int, num_bytes: int) -> mmap.mmap:
    """A shared mapping; a private one, or a copy in memory, on file systems (9p, FUSE) without them."""
    for flags in (mmap.MAP_SHARED, mmap.MAP_PRIVATE):
        with contextlib.suppress(OSError):
            return mmap.mmap(file, num_bytes, flags=flags, prot=mmap.PROT_READ)
    copy = mmap.mmap(-1, num_bytes)
    place, done = memoryview(copy), 0
    try:
        while done < num_bytes:
            read = os.preadv(file, [place[done : done + _READ_BYTES]], done)
            if read == 0:
                raise ValueError("it was cut while it was read")
            done += read
    finally:
        place.release()
    return copy


def refuse_pointer(path: Path, beginning: bytes) -> None:
    """Raise a ModelError if a file is a Git LFS pointer, which stands for a large file."""
    if beginning.startswith(_POINTER):
        raise ModelError(f"{path}: only a Git LFS pointer, not the file itself; fetch it with `git lfs pull`")


def read_text(path: Path) -> str:
    """The text of a file, its line ends as newlines; see `decode`. Raises OSError and UnicodeDecodeError."""
    return decode(path.read_bytes()).replace("\r\n", "\n").replace("\r", "\n")


def decode(data: bytes) -> str:
    """UTF-8, or what a byte order mark says, which is not part of the text. Raises UnicodeDecodeError."""
    for mark, encoding in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding)
    return data.decode()


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file."""
    return parse_json(read_bytes(path), path)


def read_bytes(path: Path) -> bytes:
    """The content of a regular file of moderate size."""
    try:
        facts = path.stat()
        if not stat.S_ISREG(facts.st_mode):  # opening a pipe would block
            raise ModelError(f"{path}: not a file")
        if facts.st_size > _MAX_JSON_BYTES:
            raise ModelError(f"{path}: {facts.st_size} bytes are too many for such a file")
        data = path.read_bytes()
        refuse_pointer(path, data)
        return data
    except (OSError, ValueError) as error:  # ValueError: a null character in the path
        raise ModelError(f"{path}: cannot be read: {getattr(error, 'strerror', error)}") from None


def parse_json(data: bytes, path: Path) -> dict[str, Any]:
    """The object in the JSON `data` of the file `path`."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path}: damaged JSON: {' '.join(str(error).split())[:200]}") from None
    if not isinstance(found, dict):
        raise ModelError(f"{path}: damaged: it contains no JSON object")
    return found

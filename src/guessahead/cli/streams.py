"""The standard streams of the command: closed ones, full disks, readers that went away, and encodings."""

from __future__ import annotations

import codecs
import contextlib
import errno
import io
import os
import sys
from typing import Any, Final

from guessahead.errors import ParameterError

_SHOWN: Final = "guessahead.shown"
_closed: set[str] = set()


class _Named(io.FileIO):
    """A standard stream whose errors say which one it is."""

    def __init__(self, number: int, mode: str, stream: str) -> None:
        super().__init__(number, mode, closefd=False)
        self._stream = stream

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data) or 0
        except OSError as error:
            error.filename = self._stream
            raise

    def readinto(self, buffer: Any, /) -> int:
        try:
            return super().readinto(buffer) or 0
        except OSError as error:
            error.filename = self._stream
            raise


class _BestEffort(io.FileIO):
    """A file that accepts everything: there is no place to report that stderr fails."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data) or 0
        except OSError:
            return len(data)


def prepare() -> None:
    """Prepare the streams of this process; once, before anything is opened.

    A closed stream is opened, because the next file would get its number, and what is meant for the stream
    would go into that file. Reading stdin and writing stdout then fail; stderr takes everything.
    """
    _closed.clear()
    for number, name, flags in (
        (0, "stdin", os.O_WRONLY),
        (1, "stdout", os.O_RDONLY),
        (2, "stderr", os.O_RDWR),
    ):
        if getattr(sys, name) is None and not _is_open(number):
            _open_nowhere(number, flags)
            _closed.add(name)
        elif _is_open(number) and not os.get_blocking(number):
            os.set_blocking(number, True)  # else a slow reader is an error
    codecs.register_error(_SHOWN, _as_shown)
    if _is_ours(sys.stdin, 0):
        sys.stdin = _text(io.BufferedReader(_Named(0, "r", "stdin")), sys.stdin, "surrogateescape")
    if _is_ours(sys.stdout, 1):
        sys.stdout = _text(io.BufferedWriter(_Named(1, "w", "stdout")), sys.stdout, _SHOWN)
    if _is_ours(sys.stderr, 2):
        sys.stderr = _text(
            io.BufferedWriter(_BestEffort(2, "w", closefd=False)), sys.stderr, "backslashreplace"
        )


def require(name: str) -> None:
    """Raise ParameterError if "stdin" or "stdout", which a command needs, is closed."""
    if name in _closed:
        raise ParameterError(f"{name} is closed, and this command needs it")


def read_stdin() -> bytes:
    """All of stdin. Raises ParameterError if it is closed."""
    require("stdin")
    return sys.stdin.buffer.read()


def stdout_error() -> OSError | None:
    """What happened to the text that waits in stdout: None if it is written now."""
    try:
        sys.stdout.flush()
    except OSError as error:
        return error
    return None


def discard_stdout() -> None:
    """Let the text that waits in stdout vanish, so that Python does not try again when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
    sys.stdout.flush()


def _is_ours(stream: Any, number: int) -> bool:
    """Whether a stream is the process's own, or was closed; not one that a test put in its place."""
    try:
        return stream is None or stream.fileno() == number
    except (OSError, ValueError, AttributeError):
        return False


def _text(buffer: Any, before: Any, errors: str) -> io.TextIOWrapper:
    """A text stream in the encoding and buffering of the one that it replaces."""
    if before is not None and before.writable():
        with contextlib.suppress(OSError):
            before.flush()
    return io.TextIOWrapper(
        buffer,
        encoding="utf-8" if before is None else before.encoding,
        errors=errors,
        line_buffering=before is not None and before.line_buffering,
        write_through=before is not None and before.write_through,
    )


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError as error:
        return error.errno != errno.EBADF
    return True


def _open_nowhere(number: int, flags: int) -> None:
    opened = os.open(os.devnull, flags)
    if opened != number:
        os.dup2(opened, number)
        os.close(opened)
    os.set_inheritable(number, True)


def _as_shown(error: UnicodeError) -> tuple[bytes, int]:
    """The error handler of stdout: bytes of a file name as they are, "?" for what the encoding lacks."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    codes = map(ord, error.object[error.start : error.end])
    shown = [bytes([code - 0xDC00]) if 0xDC80 <= code <= 0xDCFF else b"?" for code in codes]
    return b"".join(shown), error.end

"""Two timing runs never overlap."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from guessahead.measure.bench.lock import alone

# Takes the lock, says so, and holds it until its stdin ends.
HOLDER = """
import sys
from guessahead.measure.bench.lock import alone
with alone(lambda line: print("waiting", line, flush=True)):
    print("holding", flush=True)
    sys.stdin.read()
print("released", flush=True)
"""


@pytest.fixture
def hold() -> Iterator[Callable[[], subprocess.Popen[str]]]:
    """Starts a process that takes the lock."""
    with contextlib.ExitStack() as stack:

        def start() -> subprocess.Popen[str]:
            command = [sys.executable, "-c", HOLDER]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            stack.enter_context(process)  # closes the pipes, which ends it, and waits
            return process

        yield start


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def release(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.close()


def test_the_second_waits_for_the_first_and_says_so(hold: Callable[[], subprocess.Popen[str]]) -> None:
    first = hold()
    assert said(first) == "holding"
    second = hold()
    assert said(second).startswith(f"waiting another timing run (process {first.pid}) holds ")
    release(first)
    assert said(second) == "holding"


def test_a_killed_holder_leaves_no_lock(hold: Callable[[], subprocess.Popen[str]]) -> None:
    first = hold()
    assert said(first) == "holding"
    first.kill()
    first.wait()
    told: list[str] = []
    with alone(told.append):
        assert told == []


def test_one_after_the_other() -> None:
    told: list[str] = []
    for _ in range(2):
        with alone(told.append):
            pass
    assert told == []


def test_a_cache_that_cannot_be_written_has_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("GUESSAHEAD_CACHE", str(blocked / "below"))
    told: list[str] = []
    with alone(told.append):
        pass
    assert len(told) == 1
    assert re.search(r"no lock: .*timing\.lock: (Not a directory|File exists)", told[0])


def test_a_file_system_without_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(stream: object, kind: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    told: list[str] = []
    with alone(told.append):
        pass
    assert told[0].endswith("timing.lock: No locks available)")

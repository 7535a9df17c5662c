"""Where the system lets a process start few threads, fewer workers do the work, and say so."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

import guessahead as ga
from tests.support.tiny import tiny_gguf

# The stack of each new thread takes as much address space as the limit says, which ends after `threads` more.
COMMAND = """
import resource, sys
from pathlib import Path
import numpy, tokenizers
from guessahead import _native
from guessahead.cli import main
stack, threads = resource.getrlimit(resource.RLIMIT_STACK)[0], int(sys.argv[1])
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
limit = used + int((threads + 0.5) * stack)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
main(sys.argv[2:])
"""
STACK = 1 << 32


def limited(threads: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line where only so many threads can be started."""
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    return subprocess.run(
        [sys.executable, "-c", COMMAND, str(threads), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": ":".join(sys.path), "LC_ALL": "C.UTF-8"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (STACK, hard)),
    )


@pytest.mark.parametrize("threads", [0, 1, 3])
def test_fewer_workers_write_the_same(threads: int, tmp_path: Path) -> None:
    path = tiny_gguf(tmp_path / "m.gguf").path
    expected = ga.load(path, threads=1).generate("hello", max_tokens=12, drafter="none").text
    arguments = ("--max-tokens", "12", "--drafter", "none", "--threads", "6", "-m", str(path), "hello")
    found = limited(threads, "generate", *arguments)
    assert found.returncode == 0, found.stderr
    assert found.stdout.rstrip("\n") == expected.rstrip("\n")
    line = f"guessahead: the system lets this process start only {threads + 1} of 6 worker threads"
    assert found.stderr.splitlines()[0] == line


def test_a_thread_that_is_needed_elsewhere_is_told(tmp_path: Path) -> None:
    found = limited(0, "generate", "-m", "nobody/has-this-model", "hello")
    assert found.returncode == 2
    assert found.stderr.count("\n") == 1
    assert "nobody/has-this-model" in found.stderr

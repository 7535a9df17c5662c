"""Passes beside other processes that want every processor: they lose workers, and no bit changes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from guessahead import load
from tests.support.tiny import tiny_gguf

PROMPT = "the quick brown fox jumps over"


@pytest.fixture
def neighbours() -> Iterator[None]:
    """Three processes that compute and never wait."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(3)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


@pytest.mark.parametrize("drafter", ["none", "suffix"])
def test_texts_beside_busy_processes(tmp_path: Path, request: pytest.FixtureRequest, drafter: str) -> None:
    model = tiny_gguf(tmp_path / "tiny.gguf", head_scale=5.0).path
    expected = load(model, threads=1).generate(PROMPT, raw=True, max_tokens=60, drafter="none").token_ids
    request.getfixturevalue("neighbours")
    crowded = load(model, threads=2)
    for _ in range(8):
        found = crowded.generate(PROMPT, raw=True, max_tokens=60, drafter=drafter).token_ids
        assert found == expected

"""Runs the command line as a function (quick) and as a process (the real thing)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from guessahead.cli import main
from tests.support.tiny import TinyModel, tiny_gguf

PROMPT = "the quick brown fox jumps over the lazy dog and the quick brown fox jumps"


@pytest.fixture(autouse=True)
def untuned(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the user of this machine tuned is no default here."""
    path = tmp_path_factory.mktemp("tuned") / "tuned.json"
    monkeypatch.setenv("GUESSAHEAD_TUNED", str(path))
    return path


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> TinyModel:
    """Peaked, but a bias of 100 decides what comes next."""
    return tiny_gguf(tmp_path_factory.mktemp("models") / "tiny.gguf", head_scale=5.0)


@pytest.fixture(scope="session")
def other_tiny(tmp_path_factory: pytest.TempPathFactory) -> TinyModel:
    """Another model with the same tokenizer."""
    return tiny_gguf(tmp_path_factory.mktemp("models") / "other.gguf", seed=1, layers=1, head_scale=5.0)


def run(*arguments: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(main, list(arguments), input=stdin)


@pytest.fixture
def generate(tiny: TinyModel) -> Callable[..., Result]:
    """`guessahead generate` with the tiny model; 24 tokens unless told.

    Always as many guesses, so that no test depends on time: unless told, 4 of prompt-lookup.
    """

    def call(*arguments: str, prompt: str = PROMPT, stdin: bytes | None = None) -> Result:
        fixed = () if "--max-tokens" in arguments else ("--max-tokens", "24")
        fixed += () if "--gamma" in arguments else ("--gamma", "4")
        if "--drafter" not in arguments and "--draft-model" not in arguments:
            fixed += ("--drafter", "prompt-lookup")
        return run("generate", "-m", str(tiny.path), *fixed, *arguments, "--", prompt, stdin=stdin)

    return call


@pytest.fixture
def document(generate: Callable[..., Result]) -> Callable[..., dict[str, Any]]:
    """The JSON document of `guessahead generate`."""

    def call(*arguments: str, **rest: Any) -> dict[str, Any]:
        result = generate("--json", *arguments, **rest)
        assert result.exit_code == 0, result.output
        parsed: dict[str, Any] = json.loads(result.stdout)
        return parsed

    return call


def process(*arguments: str, **settings: Any) -> subprocess.CompletedProcess[bytes]:
    """The command as a process of its own."""
    environment = os.environ | settings.pop("environment", {})
    command = [sys.executable, "-m", "guessahead", *arguments]
    return subprocess.run(command, capture_output=True, env=environment, timeout=60, check=False, **settings)


def one_line(text: str, *words: str) -> None:
    """An error as it must be: one line, ours, with the words."""
    assert text.endswith("\n")
    assert text.count("\n") == 1, text
    assert text.startswith("guessahead: ")
    for word in words:
        assert word in text


def truncated(source: Path, target: Path, num_bytes: int) -> Path:
    target.write_bytes(source.read_bytes()[:num_bytes])
    return target

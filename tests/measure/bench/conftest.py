"""Tiny models, a workload of three prompts, and the user cache (with its lock) in a folder of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from guessahead.cli import main
from tests.support.tiny import TinyModel, tiny_gguf

WORKLOAD = (
    ("fox", "animals", "the quick brown fox jumps over the lazy dog and the quick brown fox jumps"),
    ("dog", "animals", "and then the lazy dog jumps over the quick brown"),
    ("loop", "code", "for index in range(10): print(index) for index in range(10):"),
)
Bench = Callable[..., tuple[Result, dict[str, Any]]]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GUESSAHEAD_CACHE", str(tmp_path / "cache"))


@pytest.fixture(autouse=True)
def _quick_peaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real meters take seconds, and reserve half a gigabyte."""
    monkeypatch.setattr("guessahead._native.read_bandwidth", lambda pool: 20e9)
    monkeypatch.setattr(
        "guessahead._native.peak", lambda pool, isa, unit: {"int8": 200e9, "f32": 100e9}[unit]
    )


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> TinyModel:
    return tiny_gguf(tmp_path_factory.mktemp("models") / "tiny.gguf", head_scale=5.0)


@pytest.fixture(scope="session")
def other_tiny(tmp_path_factory: pytest.TempPathFactory) -> TinyModel:
    """Another model with the same tokenizer."""
    return tiny_gguf(tmp_path_factory.mktemp("models") / "other.gguf", seed=1, layers=1, head_scale=5.0)


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    path = tmp_path / "workload.jsonl"
    entries = [{"id": name, "category": category, "prompt": text} for name, category, text in WORKLOAD]
    path.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))
    return path


@pytest.fixture
def bench(tiny: TinyModel, workload: Path) -> Bench:
    """`guessahead bench` with the tiny model and workload; its result and document."""

    def call(*arguments: str) -> tuple[Result, dict[str, Any]]:
        settings = ("--prompts", str(workload), "--max-tokens", "12", "--repeat", "2")
        result = run("bench", "-m", str(tiny.path), *settings, *arguments)
        assert result.exit_code in (0, 1), result.output
        return result, json.loads(result.stdout)

    return call


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def planted(prompt: str, drafter: str) -> Callable[..., Any]:
    """A fault: LanguageModel.generate, but one prompt by one drafter ends with another token."""
    from dataclasses import replace

    from guessahead.model import LanguageModel

    sound = LanguageModel.generate

    def generate(self: LanguageModel, text: Any, **options: Any) -> Any:
        answer = sound(self, text, **options)
        if text != prompt or options["drafter"] != drafter:
            return answer
        return replace(answer, token_ids=(*answer.token_ids[:-1], answer.token_ids[-1] ^ 1))

    return generate

"""A tiny model, and a folder with a head of it."""

from __future__ import annotations

from pathlib import Path

import pytest

import guessahead as ga
from tests.support.tiny import tiny_gguf
from tests.support.tiny_head import tiny_head


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GUESSAHEAD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def lm(tmp_path_factory: pytest.TempPathFactory) -> ga.LanguageModel:
    return ga.load(tiny_gguf(tmp_path_factory.mktemp("model") / "m.gguf").path, threads=1)


@pytest.fixture
def folder(lm: ga.LanguageModel, tmp_path: Path) -> Path:
    tiny_head(lm.runner.engine, "Q8_0", {"lm_head": "Q4_1", "fc": "F16"}).save(tmp_path / "head")  # type: ignore[arg-type]
    return tmp_path / "head"

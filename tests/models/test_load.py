"""Names and files -> models, and what is refused on the way."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from guessahead.checkpoints.gguf import GGUFFile, write_gguf
from guessahead.engines.registry import RunSettings
from guessahead.errors import ModelError, TokenizerError
from guessahead.model import load
from guessahead.models import download as fetch
from guessahead.models import load as loading
from tests.support.fakes import TinyEngine
from tests.support.tiny import NUM_TOKENS, tiny_gguf


class RecordingEngine(TinyEngine):
    """Stands for the engine: remembers what it was asked to load."""

    calls: list[dict[str, Any]]

    @classmethod
    def load(cls, file: GGUFFile, settings: RunSettings) -> TinyEngine:
        names = ("threads", "context", "activations", "cache")
        cls.calls.append({"tensors": len(file.tensors), **{name: getattr(settings, name) for name in names}})
        return cls(NUM_TOKENS)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> type[RecordingEngine]:
    monkeypatch.setattr(RecordingEngine, "calls", [], raising=False)
    module = SimpleNamespace(load_engine=RecordingEngine.load)
    monkeypatch.setitem(sys.modules, "guessahead.engines.native", module)
    return RecordingEngine


def test_a_file_is_resolved_to_itself(tmp_path: Path) -> None:
    path = tmp_path / "any name"
    path.touch()
    assert loading.resolve(path) == loading.resolve(str(path)) == path


def test_a_home_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "model.gguf").touch()
    assert loading.resolve("~/model.gguf") == tmp_path / "model.gguf"


def test_a_catalogue_name_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def fake_fetch(name: str, *, progress: fetch.Progress | None) -> Path:
        asked.append(name)
        return Path("/cache/file.gguf")

    monkeypatch.setattr(loading, "fetch", fake_fetch)
    assert loading.resolve("smollm2-135m") == Path("/cache/file.gguf")
    assert asked == ["smollm2-135m"]


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("smollm", r"neither a file nor a model of the catalogue \(smollm2-135m, qwen2"),
        ("missing.gguf", "neither a file"),
        ("", "folder without config.json"),
        (".", "is a folder without config.json: not a model"),
    ],
)
def test_what_is_not_there_is_refused(model: str, words: str) -> None:
    with pytest.raises(ModelError, match=words):
        loading.resolve(model)


def test_a_file_path_is_not_taken_for_a_hub_id() -> None:
    with pytest.raises(ModelError) as caught:
        loading.resolve("models/missing.gguf")
    assert "hub" not in str(caught.value)


def test_load_passes_the_settings_on(tmp_path: Path, engine: type[RecordingEngine]) -> None:
    path = tiny_gguf(tmp_path / "tiny.v1.gguf").path
    model = load(path, threads=1, context=77, activations="f32", cache="f16")
    assert engine.calls == [
        {"tensors": 21, "threads": 1, "context": 77, "activations": "f32", "cache": "f16"}
    ]
    assert model.name == "tiny.v1"
    assert model.tokenizer.vocab_size == NUM_TOKENS
    assert model.chat_template is not None


def test_a_bad_tokenizer_is_found_before_the_weights_are_touched(
    tmp_path: Path, engine: type[RecordingEngine]
) -> None:
    write_gguf(tmp_path / "none.gguf", {"general.architecture": "llama"}, [])
    with pytest.raises(TokenizerError):
        load(tmp_path / "none.gguf")
    assert not engine.calls


def test_a_damaged_file_is_one_line(tmp_path: Path, engine: type[RecordingEngine]) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf").path
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(ModelError, match="incomplete download"):
        load(path)

"""A model that guesses for itself through a copy at lower precision; the copies in the user cache."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import guessahead as ga
from guessahead.drafters import registry
from guessahead.drafters.base import Setup
from guessahead.errors import ModelError, ParameterError
from guessahead.gguf import GGUFFile
from guessahead.requantise import requantised
from tests.fakes import TinyEngine
from tests.tiny import tiny_gguf

PROMPT = "the fox the fox the"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GUESSAHEAD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "requantised"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return tiny_gguf(tmp_path / "model.gguf", format="F32").path


@pytest.mark.parametrize("drafter", ["self-q4", "self-q8"])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_the_text_is_the_targets(cache: Path, model: Path, drafter: str, temperature: float) -> None:
    lm = ga.load(model, threads=1)
    settings = {"raw": True, "max_tokens": 60, "temperature": temperature, "seed": 1, "logprobs": 2}
    plain = lm.generate(PROMPT, drafter="none", **settings)  # type: ignore[arg-type]
    for gamma in (4, None):
        ours = lm.generate(PROMPT, drafter=drafter, gamma=gamma, **settings)  # type: ignore[arg-type]
        assert ours.token_ids == plain.token_ids
        assert ours.logprobs == plain.logprobs, "the cache holds what the target itself computed"
        if gamma:
            assert ours.stats.num_accepted > 20
    assert len(list(cache.iterdir())) == 1


def test_eight_bits_agree_more_often_than_four(cache: Path, model: Path) -> None:
    lm = ga.load(model, threads=1)
    alphas = [
        lm.generate(PROMPT, raw=True, max_tokens=200, drafter=name, gamma=4).stats.alpha
        for name in ("self-q4", "self-q8")
    ]
    assert None not in alphas
    assert alphas[0] < alphas[1]  # type: ignore[operator]


def test_a_copy_is_made_once_for_each_state_of_the_file(cache: Path, model: Path) -> None:
    first = requantised(model, "Q4_1")
    made = first.stat().st_mtime_ns
    assert requantised(model, "Q4_1") == first
    assert first.stat().st_mtime_ns == made
    with GGUFFile.open(first) as file:
        assert file.tensors["blk.0.ffn_up.weight"].type.name == "Q4_1"
    assert requantised(model, "Q8_0") != first
    os.utime(model, ns=(1, 1))
    assert requantised(model, "Q4_1") != first
    assert not [path for path in cache.iterdir() if path.suffix != ".gguf"], "nothing unfinished is left"


def test_no_copy_no_drafter(tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GUESSAHEAD_CACHE", str(tmp_path / "file"))
    with pytest.raises(ModelError, match="lower precision"):
        requantised(model, "Q4_1")
    with pytest.raises(ParameterError, match="loaded from a file"):
        registry.make("self-q4", {}, Setup(TinyEngine()))  # type: ignore[arg-type]

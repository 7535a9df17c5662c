"""A model that guesses for itself through a copy at lower precision; the copies in the user cache."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

import guessahead as ga
from guessahead.checkpoints.gguf import GGUFFile
from guessahead.drafters import registry
from guessahead.drafters.base import DrafterResources
from guessahead.drafters.model_base import PRECISIONS
from guessahead.errors import ModelError, ParameterError
from guessahead.models import lower_precision
from guessahead.models.lower_precision import requantised
from guessahead.runners.solo import SoloRunner
from tests.support.fakes import TinyEngine
from tests.support.tiny import tiny_gguf

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
    for gamma in (4, "auto"):
        ours = lm.generate(PROMPT, drafter=drafter, gamma=gamma, **settings)  # type: ignore[arg-type]
        assert ours.token_ids == plain.token_ids
        assert ours.logprobs == plain.logprobs, "the cache holds what the target itself computed"
        if gamma != "auto":
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


@pytest.mark.parametrize("precision", ["q4", "q8"])
def test_a_draft_model_runs_at_lower_precision(cache: Path, model: Path, precision: str) -> None:
    lm, draft = ga.load(model, threads=1), ga.load(model, threads=1)
    settings = {"raw": True, "max_tokens": 60}
    plain = lm.generate(PROMPT, drafter="none", **settings)  # type: ignore[arg-type]
    for given in ({}, {"precision": precision}):
        ours = lm.generate(
            PROMPT, drafter="draft-model", draft_model=draft, drafter_options=given, gamma=4, **settings
        )  # type: ignore[arg-type]
        assert ours.token_ids == plain.token_ids
        assert ours.stats.alpha == 1.0 or given, "the same weights are always right, the copy is not"
    assert ours.stats.alpha is not None
    assert ours.stats.alpha < 1.0
    assert len(list(cache.iterdir())) == 1
    lower = draft.runner.lower_precision
    assert (
        lower.below(PRECISIONS[precision]).info.bytes_per_pass < 0.4 * draft.runner.engine.info.bytes_per_pass
    )


def test_a_precision_that_is_none_is_refused(tmp_path: Path, model: Path) -> None:
    lm = ga.load(model, threads=1)
    for kind, precision in (("Q4_1", "q4"), ("Q4_0", "q4"), ("Q4_1", "q8"), ("Q8_0", "q8")):
        draft = ga.load(tiny_gguf(tmp_path / f"{kind}.gguf", format=kind).path, threads=1)
        with pytest.raises(ParameterError, match="bits a weight already") as raised:
            lm.generate(
                PROMPT,
                raw=True,
                drafter="draft-model",
                draft_model=draft,
                drafter_options={"precision": precision},
            )
        assert "\n" not in str(raised.value)
    unfiled = ga.LanguageModel(
        SoloRunner(TinyEngine(lm.runner.engine.info.vocab_size), lm.tokenizer), lm.tokenizer, None, "made"
    )  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="loaded from a GGUF file"):
        lm.generate(
            PROMPT, raw=True, drafter="draft-model", draft_model=unfiled, drafter_options={"precision": "q4"}
        )


def test_a_cache_that_takes_no_files(
    cache: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy that is there is used; else there is one for the time of loading."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    requantised(model, "Q4_1")

    def guess(drafter: str) -> ga.Generation:
        return ga.load(model, threads=1).generate(PROMPT, raw=True, max_tokens=30, drafter=drafter, gamma=2)

    expected = [guess("self-q4"), guess("self-q8")]
    (cache / next(name for name in os.listdir(cache) if "Q8_0" in name)).unlink()
    monkeypatch.setattr(lower_precision, "_takes_files", lambda folder: False)
    found = [guess("self-q4"), guess("self-q8")]
    for one, other in zip(found, expected, strict=True):
        assert one.token_ids == other.token_ids
        assert one.stats.num_accepted == other.stats.num_accepted > 0
    assert len(os.listdir(cache)) == 1
    assert os.listdir(tmp_path / "temporary") == []


def test_the_copy_of_a_file_with_a_long_name(cache: Path, model: Path) -> None:
    long = model.rename(model.with_name("é" * 120 + ".gguf"))
    assert requantised(long, "Q4_1").exists()


def test_no_copy_no_drafter(tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GUESSAHEAD_CACHE", str(tmp_path / "file"))
    with pytest.raises(ModelError, match="lower precision"):
        requantised(model, "Q4_1")
    with pytest.raises(ParameterError, match="loaded from a file"):
        registry.make("self-q4", {}, DrafterResources(TinyEngine()))  # type: ignore[arg-type]

"""`guessahead train`, from a text file to a head that guesses."""

from __future__ import annotations

from pathlib import Path

import pytest

import guessahead as ga
from guessahead.training import data
from tests.cli.conftest import run
from tests.support.tiny import tiny_gguf

TEXT = "the quick brown fox jumps over the lazy dog and the quick brown fox jumps again. "


@pytest.mark.reference
def test_from_a_file_to_a_head_and_on_from_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "_HELD_OUT", 3)
    model = tiny_gguf(tmp_path / "m.gguf", format="Q8_0", layers=4, head_scale=5.0).path
    files = []
    for i in range(12):
        file = tmp_path / f"text{i}.txt"
        file.write_text(f"story {i}: " + TEXT * 5)
        files += ["--file", str(file)]
    arguments = ["train", "-m", str(model), "-o", str(tmp_path / "head"), "--data", str(tmp_path / "data")]
    arguments += ["--only-files", *files, "--vocabulary", "128", "--threads", "1"]
    first = run(*arguments, "--epochs", "1", "--speculators", str(tmp_path / "vllm"))
    assert first.exit_code == 0, first.output
    assert "right:" in first.stderr
    assert (tmp_path / "vllm" / "model.safetensors").exists()
    again = run(*arguments, "--epochs", "2")
    assert again.exit_code == 0, again.output
    line = next(line for line in again.stderr.splitlines() if "to learn from" in line)
    assert " 0 so far" not in line, "it goes on from its checkpoint"

    lm = ga.load(model, threads=1)
    options = {"drafter": "head", "drafter_options": {"path": str(tmp_path / "head")}, "gamma": 3}
    for sampling in ({}, {"temperature": 0.8, "seed": 3}):
        plain = lm.generate(TEXT, raw=True, max_tokens=40, drafter="none", **sampling)
        guessed = lm.generate(TEXT, raw=True, max_tokens=40, **options, **sampling)
        assert guessed.token_ids == plain.token_ids
        assert guessed.stats.num_tested > 10


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--only-files"], "needs --file"),
        (["--only-files", "--file", "nothing-here.txt"], "nothing-here.txt"),
        (["--tokens", "5"], "--tokens"),
    ],
)
@pytest.mark.reference
def test_what_cannot_be_is_one_line(tmp_path: Path, arguments: list[str], said: str) -> None:
    model = tiny_gguf(tmp_path / "m.gguf", layers=4).path
    result = run("train", "-m", str(model), "-o", str(tmp_path / "h"), "--data", str(tmp_path), *arguments)
    assert result.exit_code == 2
    assert said in result.stderr


@pytest.mark.reference
def test_a_model_of_too_few_layers(tmp_path: Path) -> None:
    model = tiny_gguf(tmp_path / "m.gguf", layers=2).path
    result = run("train", "-m", str(model), "-o", str(tmp_path / "h"), "--data", str(tmp_path))
    assert result.exit_code == 2
    assert "4 or more" in result.stderr

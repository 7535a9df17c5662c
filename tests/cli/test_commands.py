"""demo, models, pull, convert."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from guessahead.checkpoints.gguf import GGUFFile
from guessahead.models import catalogue
from guessahead.models.download import cached
from tests.cli.conftest import PROMPT, one_line, run
from tests.support.tiny import TinyModel, tiny_gguf


def test_demo(tiny: TinyModel) -> None:
    result = run("demo", "-m", str(tiny.path), "--max-tokens", "12", "--repeat", "2")
    assert result.exit_code == 0
    assert result.stdout.count("-- plain") == result.stdout.count("-- guessing ahead") == 5
    assert "edit-rename" in result.stdout
    assert "story-light (sampled)" in result.stdout
    *_, tail = result.stdout.partition("tiny, 5 answers, 2 rounds\n")
    for word in ("tokens/s", "GB/s", "ratio", "alpha", "tau", "passes saved"):
        assert word in tail
    num_tokens = sum(int(line.split()[-7]) for line in result.stdout.splitlines() if line.endswith("  yes"))
    assert f"identical: yes ({num_tokens}/{num_tokens} tokens)" in tail


def test_demo_with_a_draft_model(tiny: TinyModel, other_tiny: TinyModel) -> None:
    result = run(
        "demo",
        "-m",
        str(tiny.path),
        "--draft-model",
        str(other_tiny.path),
        "--max-tokens",
        "9",
        "--gamma",
        "2",
    )
    assert result.exit_code == 0
    assert "\n  portfolio " in result.stdout


def test_demo_fails_where_a_token_differs(
    tiny: TinyModel, other_tiny: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.cli.test_compare import unchecked

    monkeypatch.setattr("guessahead.core.step.accept", unchecked)
    result = run(
        "demo",
        "-m",
        str(tiny.path),
        "--draft-model",
        str(other_tiny.path),
        "--max-tokens",
        "9",
        "--gamma",
        "4",
    )
    assert result.exit_code == 1
    assert "  identical: NO (" in result.stdout


def test_demo_pair_names_both_models(tiny: TinyModel) -> None:
    result = run("demo", "--pair", "-m", str(tiny.path))
    assert result.exit_code == 2
    one_line(result.stderr, "--pair", "--model")


@pytest.mark.model
def test_demo_pair() -> None:
    result = run("demo", "--pair", "--max-tokens", "6")
    assert result.exit_code == 0
    assert "qwen2.5-coder-1.5b, 2 answers" in result.stdout
    assert "identical: yes (12/12 tokens)" in result.stdout


def test_models() -> None:
    described = json.loads(run("models", "--json").stdout)
    assert [each["name"] for each in described] == list(catalogue.entries())
    assert set(described[0]) == {
        "name",
        "title",
        "license",
        "num_bytes",
        "path",
        "tensors",
        "file",
        "hub",
        "sha256",
        "default",
    }
    assert [each["name"] for each in described if each["default"]] == [catalogue.DEFAULT_MODEL]
    table = run("models").stdout
    for each in described:
        assert each["name"] in table
        assert each["file"] in table
        assert each["tensors"] in table


@pytest.mark.model
def test_pull_of_a_cached_model_prints_where_it_is() -> None:
    result = run("pull", "smollm2-135m", "smollm2-135m")
    assert result.exit_code == 0
    assert result.stdout == f"{cached('smollm2-135m')}\n" * 2


def test_convert(tiny: TinyModel, tmp_path: Path) -> None:
    target = tmp_path / "half.gguf"
    result = run("convert", str(tiny.path), str(target), "--type", "f16")
    assert result.exit_code == 0, result.output
    assert result.stdout == ""
    assert f"{target}: " in result.stderr
    with GGUFFile.open(target) as file:
        assert {tensor.type.name for tensor in file.tensors.values()} == {"F16", "F32"}
    assert run("generate", "-m", str(target), "--max-tokens", "4", PROMPT).exit_code == 0
    assert run("convert", str(tiny.path), str(target), "--type", "BF16", "--force").exit_code == 0
    with GGUFFile.open(target) as file:
        assert {tensor.type.name for tensor in file.tensors.values()} == {"BF16", "F32"}


def test_convert_reports_what_did_not_fit(tmp_path: Path) -> None:
    model = tiny_gguf(tmp_path / "narrow.gguf", format="F32", width=64)
    result = run("convert", str(model.path), str(tmp_path / "out.gguf"), "--type", "Q4_K")
    assert result.exit_code == 0
    assert "does not fit into Q4_K: Q5_0" in result.stderr

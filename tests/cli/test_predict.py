"""`guessahead predict`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from guessahead.measure.formulas import predict_speedup, predict_tau
from tests.cli.conftest import one_line, run

Generate = Callable[..., Result]


def test_the_figures_are_the_formula() -> None:
    result = run("predict", "--alpha", "0.75", "--gamma", "7", "--cost", "0.02")
    assert result.exit_code == 0, result.output
    assert f"tau         {predict_tau(0.75, 7):.2f} tokens per pass" in result.stdout
    assert f"speed-up    {predict_speedup(0.75, 7, 0.02, 1.0):.2f}\n" in result.stdout


def test_the_best_gamma_is_the_default() -> None:
    default = run("predict", "--alpha", "0.6", "--cost", "0.1", "--verify-curve", "2:1.2,5:1.8").stdout
    assert "(the best)" in default
    other = run("predict", "--alpha", "0.6", "--cost", "0.1", "--gamma", "16").stdout
    assert "best gamma" in other


def test_where_nothing_pays() -> None:
    costs = ("--cost", "0.5", "--verify-curve", "2:3")
    result = run("predict", "--alpha", "0.9", "--gamma", "4", *costs)
    assert "best gamma  0: speed-up 1.00" in result.stdout
    assert "break-even  none" in result.stdout
    assert "plain decoding" in run("predict", "--alpha", "0.9", *costs).stdout


def test_the_table_marks_the_best_of_each_column() -> None:
    lines = run("predict", "--alpha", "0.5", "--cost", "0.1").stdout.splitlines()
    rows = [line for line in lines if line[:5].strip().isdigit()]
    assert len(rows) == 11
    assert sum(line.count("*") for line in rows) == 9  # one for each alpha


def test_json(tmp_path: Path) -> None:
    result = run("predict", "--alpha", "0.5", "--gamma", "2", "--verify-curve", "3:1.5", "--json")
    document = json.loads(result.stdout)
    assert document["tau"] == predict_tau(0.5, 2)
    assert document["v"] == {"1": 1.0, "3": 1.5}
    assert document["measured"] is None
    assert set(document["grid"]) == {"gammas", "alphas", "speedups"}


def test_from_a_trace(generate: Generate, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    generate("--compare", "--trace", str(path), "-o", "min_ngram=1", "--gamma", "3")
    alpha = json.loads(path.read_text(encoding="utf-8"))["stats"]["alpha"]
    document = json.loads(run("predict", "--from", str(path), "--json").stdout)
    assert document["alpha"] == alpha
    assert document["measured"]["speedup"] > 0
    text = run("predict", "--from", str(path)).stdout
    assert "\nmeasured    tau " in text
    document = json.loads(
        run("predict", "--from", str(path), "--alpha", "0.9", "--cost", "2", "--json").stdout
    )
    assert (document["alpha"], document["c"]) == (0.9, 2.0)


@pytest.mark.parametrize(("suffix", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_plot(tmp_path: Path, suffix: str, start: bytes) -> None:
    path = tmp_path / f"plot.{suffix}"
    result = run("predict", "--alpha", "0.7", "--plot", str(path))
    assert result.exit_code == 0, result.output
    assert path.read_bytes().startswith(start)


def test_plot_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = run("predict", "--alpha", "0.7", "--plot", str(tmp_path / "plot.svg"))
    assert result.exit_code == 2
    one_line(result.stderr, "matplotlib", "plot")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), ("--alpha", "--from")),
        (("--alpha", "1.5"), ("alpha", "1.5")),
        (("--alpha", "0.5", "--cost", "-1"), ("c must be",)),
        (("--alpha", "0.5", "--verify-curve", "5"), ("ROWS:V",)),
        (("--alpha", "0.5", "--plot", "x.gif"), (".png",)),
        (("--from", "missing.json"), ("missing.json", "cannot be read")),
    ],
)
def test_errors(arguments: tuple[str, ...], words: tuple[str, ...]) -> None:
    result = run("predict", *arguments)
    assert result.exit_code == 2
    one_line(result.stderr, *words)

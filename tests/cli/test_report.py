"""`guessahead report`, from a trace that `generate` wrote."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from click.testing import Result

from tests.cli.conftest import one_line, run

Generate = Callable[..., Result]


def test_from_generate_to_the_page(generate: Generate, tmp_path: Path) -> None:
    trace, page = tmp_path / "fox.json", tmp_path / "page.html"
    written = generate("--compare", "--trace", str(trace), "-o", "min_ngram=1")
    assert written.exit_code == 0, written.output
    result = run("report", str(trace), str(trace), "-o", str(page))
    assert result.exit_code == 0, result.output
    assert result.stdout == f"{page}\n"
    html = page.read_text(encoding="utf-8")
    assert html.count('<section data-trace="') == 2
    for words in (
        "plain decoding",
        "speed-up",
        "measured",
        "yes, to the last token",
        "guessed by prompt-lookup",
    ):
        assert words in html


def test_the_trace_of_a_comparison_holds_plain_decoding(generate: Generate, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    assert generate("--compare", "--trace", str(path)).exit_code == 0
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document["comparison"]["identical"] is True
    assert document["plain"]["drafter"] == "none"
    assert generate("--trace", str(path)).exit_code == 0
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document["comparison"] is document["plain"] is None


def test_what_is_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("{}")
    for arguments, words in (
        ((str(path),), ("x", "not a trace")),
        ((str(tmp_path / "missing.json"),), ("cannot be read",)),
    ):
        result = run("report", *arguments, "-o", str(tmp_path / "page.html"))
        assert result.exit_code == 2
        one_line(result.stderr, *words)
    assert not (tmp_path / "page.html").exists()


def test_a_page_that_cannot_be_written(generate: Generate, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    generate("--trace", str(path))
    result = run("report", str(path), "-o", str(tmp_path / "no" / "page.html"))
    assert result.exit_code == 2
    one_line(result.stderr, "cannot be written")

"""The pages show what the code does."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"


@pytest.mark.model
def test_the_worked_example_is_the_real_trace() -> None:
    printed = "\n".join(runpy.run_path(str(DOCS / "quick_brown_fox.py"))["lines"]())
    page = (DOCS / "how-it-works.md").read_text(encoding="utf-8")
    _, _, after_mark = page.partition("<!-- trace -->\n```\n")
    shown, _, _ = after_mark.partition("\n```\n")
    assert shown == printed


@pytest.mark.model
def test_the_worked_example_accepts_three_and_corrects_one() -> None:
    printed = "\n".join(runpy.run_path(str(DOCS / "quick_brown_fox.py"))["lines"]())
    assert "draft   ' quick' ' brown' ' fox' ' runs'" in printed
    assert "emitted ' quick' ' brown' ' fox' ' jumps', of which guessed 3" in printed

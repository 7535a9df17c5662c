"""The pages show what the code does."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from guessahead.cli import main

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


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


@pytest.mark.model
def test_the_transcript_of_the_readme_is_real() -> None:
    """But for blank lines and those that it leaves out: the one that opens the code, those with times."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"^\$ guessahead (.*?[^\\])\n(.*?)^```$", readme, re.DOTALL | re.MULTILINE)
    assert found is not None
    command, shown = found.groups()
    result = CliRunner().invoke(main, shlex.split(command.replace("\\\n", "")))
    assert result.exit_code == 0
    answer = result.stdout.splitlines()[1:]
    timed = ("plain ", "guessing ", "ratio ", "memory ")
    figures = [line for line in result.stderr.splitlines() if not line.strip().startswith(timed)]
    assert list(filter(None, shown.splitlines())) == list(filter(None, [*answer, *figures]))

"""_native.pyi, by which the Python side is type-checked, is what the generator makes of the module."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import guessahead

ROOT = Path(__file__).parents[2]
STUB = Path(guessahead.__file__).parent / "_native.pyi"


def test_the_stub_is_what_the_module_says(tmp_path: Path) -> None:
    made = tmp_path / "_native.pyi"
    patterns = ROOT / "native" / "bindings" / "stub_patterns.txt"
    command = [sys.executable, "-m", "nanobind.stubgen", "-q", "-m", "guessahead._native"]
    subprocess.run([*command, "-p", str(patterns), "-o", str(made)], check=True)
    assert STUB.read_text() == made.read_text(), "run `make stub`"


def test_the_stub_names_arguments_and_types() -> None:
    text = STUB.read_text()
    assert "def isa(wanted: str = '') -> str:" in text
    assert "FORMATS: list[str]" in text
    assert "class RowGroup:" in text

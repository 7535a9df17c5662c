"""`guessahead acceptance`."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tests.cli.conftest import one_line, run
from tests.support.second_tokenizer import with_other_tokenizer
from tests.support.tiny import TinyModel

Acceptance = Callable[..., Result]


@pytest.fixture
def acceptance(tiny: TinyModel) -> Acceptance:
    """The command with the tiny model, 60 tokens of each text."""

    def call(*arguments: str, **more: Any) -> Result:
        return run("acceptance", "-m", str(tiny.path), "--tokens", "60", *arguments, **more)

    return call


def test_the_examples(acceptance: Acceptance) -> None:
    result = acceptance("--guess", "90,40")
    assert result.exit_code == 0, result.output
    for words in (
        "tiny, drafter portfolio, greedy",
        "this machine: c = ",
        "\nusers.json",
        "\ntwist.txt",
        "your estimate for users.json was ",
    ):
        assert words in result.stdout
    assert result.stderr == ""


def test_the_document_says_the_same(acceptance: Acceptance) -> None:
    result = acceptance("--json", "--guess", "90,40", "--gamma", "3")
    document = json.loads(result.stdout)
    assert [text["name"] for text in document["texts"]] == ["users.json", "twist.txt"]
    assert [text["your_guess"] for text in document["texts"]] == [0.9, 0.4]
    for text in document["texts"]:
        assert text["num_tokens"] == 45  # the first quarter is given
        assert len(text["tested_at"]) == 3
        assert text["name"] not in text["reason"]
        assert text["gains"] == (text["expected"]["speedup"] > 1)


@pytest.mark.parametrize("temperature", ["0", "0.8"])
def test_a_draft_model_with_another_tokenizer(
    acceptance: Acceptance, tiny: TinyModel, tmp_path: Path, temperature: str
) -> None:
    other = with_other_tokenizer(tiny.path, tmp_path / "other.gguf")
    result = acceptance("--draft-model", str(other), "--temperature", temperature, "--json", "--gamma", "2")
    assert result.exit_code == 0, result.output
    for text in json.loads(result.stdout)["texts"]:
        assert 0.2 < text["alpha"] <= 1


def test_the_same_model_as_its_own_drafter_is_always_right(acceptance: Acceptance, tiny: TinyModel) -> None:
    for settings in ((), ("--temperature", "0.9")):
        document = json.loads(acceptance("--draft-model", str(tiny.path), "--json", *settings).stdout)
        assert [text["alpha"] for text in document["texts"]] == pytest.approx([1.0, 1.0])
        assert document["drafter"] == "draft-model"


def test_own_files_and_a_question(acceptance: Acceptance, tmp_path: Path) -> None:
    path = tmp_path / "own.txt"
    path.write_text("the quick brown fox jumps over the lazy dog " * 4)
    result = acceptance(str(path), "--ask", stdin=b"70\n")
    assert result.exit_code == 0, result.output
    assert "How many per cent" in result.stderr
    assert f"your estimate for {path} was " in result.stdout


def test_a_drafter_option_matters(acceptance: Acceptance) -> None:
    few, many = (
        json.loads(acceptance("--json", "--drafter", "prompt-lookup", "-o", f"min_ngram={n}").stdout)[
            "texts"
        ][0]
        for n in (5, 1)
    )
    assert few["num_guessed"] < many["num_guessed"]


def test_a_terminal_has_a_progress_bar(tiny: TinyModel) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "guessahead", "acceptance", "-m", str(tiny.path), "--tokens", "60"]
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "80"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, env=environment)
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # how the end of a terminal is told
        while piece := os.read(ours, 65536):
            shown += piece
    os.close(ours)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    for words in (b"the machine", b"users.json", b"twist.txt", b"100%"):
        assert words in shown
    assert b"the machine" not in output


def test_errors(acceptance: Acceptance, tmp_path: Path) -> None:
    short, binary = tmp_path / "short.txt", tmp_path / "binary"
    short.write_text("hi")
    binary.write_bytes(b"\xff" * 50)
    for arguments, words in (
        (("--guess", "90"), ("1 numbers for 2 texts",)),
        (("--guess", "90,x"), ("90,40",)),
        (("--guess", "90,140"), ("from 0 to 100",)),
        (("--guess", "1,2", "--ask"), ("--ask", "--guess")),
        ((str(short),), ("short.txt", "at least 8")),
        ((str(binary),), ("not UTF-8",)),
        ((str(tmp_path / "missing"),), ("cannot be read",)),
        ((str(short), str(short)), ("twice",)),
        (("--drafter", "nobody"), ("nobody",)),
    ):
        result = acceptance(*arguments)
        assert result.exit_code == 2, arguments
        one_line(result.stderr, *words)

"""--show-draft: the same text, with the accepted guesses marked."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from click.testing import Result

from tests.cli.conftest import PROMPT
from tests.support.tiny import TinyModel

Generate = Callable[..., Result]
LETTERS = ("--logit-bias", f"{ord('J')}=100")  # id 0x4A is the byte of "J": every token is a J


def test_one_pair_of_brackets_per_step(generate: Generate) -> None:
    """Nothing to match at first; then full drafts of three and a bonus; the 16th token needs no guess."""
    result = generate(*LETTERS, "--show-draft", "--gamma", "3", "--max-tokens", "16")
    assert result.stdout == "JJJ[JJJ]J[JJJ]J[JJJ]JJ\n"
    assert "source" in result.stderr
    assert "the model 7, [prompt-lookup 9]" in result.stderr


def test_without_marks_it_is_the_answer(generate: Generate, tiny: TinyModel) -> None:
    options = ("--draft-model", str(tiny.path), "--max-tokens", "60", "--logit-bias", "91=-100")
    marked = generate(*options, "--logit-bias", "93=-100", "--show-draft").stdout
    plain = generate(*options, "--logit-bias", "93=-100").stdout
    assert "[" in marked
    assert re.sub(r"[\[\]]", "", marked) == plain


def test_stop_strings_cut_it_too(generate: Generate) -> None:
    text = generate("--max-tokens", "60").stdout
    stop = text[20:23]
    assert generate("--max-tokens", "60", "--show-draft", "--stop", stop).stdout.rstrip("\n") == text[
        : text.index(stop)
    ].rstrip("\n")


def test_colours_on_a_terminal(tiny: TinyModel) -> None:
    shown = _on_a_terminal(tiny.path, {"TERM": "xterm-256color"}, drop="NO_COLOR")
    assert "JJJ\x1b[32mJJJ\x1b[0mJ\x1b[32mJJJ\x1b[0mJ" in shown
    assert "[JJJ]" not in shown


def test_no_color_means_brackets(tiny: TinyModel) -> None:
    shown = _on_a_terminal(tiny.path, {"TERM": "xterm-256color", "NO_COLOR": "1"})
    assert "JJJ[JJJ]J[JJJ]J" in shown
    assert "\x1b[" not in shown


def _on_a_terminal(model: Path, environment: dict[str, str], drop: str = "") -> str:
    """What the command writes to a terminal, both streams."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "guessahead", "generate", "-m", str(model), *LETTERS]
    command += ["--show-draft", "--drafter", "prompt-lookup", "--gamma", "3", "--max-tokens", "16", PROMPT]
    settings = {key: value for key, value in (os.environ | environment).items() if key != drop}
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=settings)
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 4096):
            shown += piece
    except OSError:  # how Linux says that the other side has closed
        pass
    finally:
        os.close(ours)
    assert process.wait(timeout=60) == 0
    return shown.decode()

"""Finds the code blocks of a page, and runs them as a reader would: one after the other, in one folder.

python: a script of its own; if its first line is "# file: NAME", it is written there instead.
toml: with such a line, written; entry points in a pyproject.toml are installed into the folder.
sh: given to bash, with `guessahead` as a command.
text, json and blocks without a language are output, and are not run.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).parent.parent.parent / "docs"
RUN = ("python", "sh", "toml")
NOT_RUN = ("", "text", "json")
_FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"\A# file: (\S+)\n")
_SHELL = 'set -eu\nguessahead() { "$PYTHON" -m guessahead "$@"; }\n'


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    line: int


def pages() -> list[Path]:
    return sorted(DOCS.glob("*.md"))


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(match[1].strip(), match[2], text[: match.start()].count("\n") + 1)
        for match in _FENCE.finditer(text)
    ]


def run(block: Block, folder: Path) -> subprocess.CompletedProcess[str] | None:
    """None where a file was written."""
    named = _FILE.match(block.text)
    if named:
        (folder / named[1]).write_text(block.text, encoding="utf-8")
        if named[1] == "pyproject.toml":
            _install(tomllib.loads(block.text)["project"], folder)
        return None
    environment = os.environ | {
        "PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "GUESSAHEAD_TUNED": str(folder / "tuned.json"),
    }
    command = (
        [sys.executable, "-W", "error", "-c", block.text]
        if block.language == "python"
        else ["bash", "-c", _SHELL + block.text]
    )
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def _install(project: dict[str, object], folder: Path) -> None:
    """What pip would note of a package with these entry points."""
    note = folder / f"{str(project['name']).replace('-', '_')}-{project['version']}.dist-info"
    note.mkdir()
    (note / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    groups = project["entry-points"]
    assert isinstance(groups, dict)
    lines = [
        f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in points.items())
        for group, points in groups.items()
    ]
    (note / "entry_points.txt").write_text("\n".join(lines))

"""Options and output that both programs of this folder share."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from guessahead.measure.bench.provenance import provenance

_Function = TypeVar("_Function", bound=Callable[..., Any])


def common_options(function: _Function) -> _Function:
    """--model, --threads, --llama, --json."""
    for decorate in (
        click.option(
            "--json", "json_file", type=click.File("w", lazy=False), help="Write the figures there."
        ),
        click.option(
            "--llama", type=click.Path(path_type=Path, exists=True), help="Folder with llama.cpp's programs."
        ),
        click.option("--threads", type=int, default=2, show_default=True, help="Threads of every engine."),
        click.option(
            "-m", "--model", default="smollm2-135m", show_default=True, help="Catalogue name or GGUF file."
        ),
    ):
        function = decorate(function)
    return function


def show_progress(line: str) -> None:
    """How far it is, on a terminal."""
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[K{line}", nl=False, err=True)


def say(line: str) -> None:
    """A line for the reader."""
    click.echo(f"\r\x1b[K{line}" if sys.stderr.isatty() else line, err=True)


def markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table that a README can hold as it is."""
    lines = [headings, ["---", *["---:"] * (len(headings) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def finish(document: Mapping[str, Any], stream: Any, *, isa: str, threads: int) -> None:
    """Write the JSON document, if it is wanted."""
    if stream is not None:
        origin = provenance(isa=isa, threads=threads, arguments=sys.argv[1:])
        json.dump({**document, "provenance": origin}, stream, indent=1, allow_nan=False)
        stream.write("\n")

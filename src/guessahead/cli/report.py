"""`guessahead report`: traces as a page."""

from __future__ import annotations

from pathlib import Path

import click

from guessahead.cli.base import debug_option
from guessahead.errors import ParameterError


@click.command("report")
@click.argument("traces", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="TRACE.json...")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("report.html"),
    show_default=True,
    help="The page; a file of that name is replaced.",
)
@debug_option
def command(traces: tuple[Path, ...], output: Path) -> None:
    """Make one HTML page of what `guessahead generate --trace TRACE.json` wrote.

    It shows the text with every token marked by who guessed it, what was guessed and rejected at each place,
    the steps over time, and the figures. Several traces stand side by side. The page needs no network and
    nothing beside itself. A trace that was made with --compare also holds plain decoding's figures.
    """
    from guessahead.report import read_trace, render

    page = render([read_trace(path) for path in traces])
    try:
        output.write_text(page, encoding="utf-8")
    except OSError as error:
        raise ParameterError(f"{output} cannot be written: {error.strerror or error}") from None
    click.echo(output)

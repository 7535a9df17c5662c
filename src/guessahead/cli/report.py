"""`guessahead report`: an HTML page of traces."""

from __future__ import annotations

from pathlib import Path

import click

from guessahead.cli import streams
from guessahead.cli.base import debug_option
from guessahead.cli.outputs import Output, output_file


@click.command("report")
@click.argument("traces", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="TRACE.json...")
@click.option(
    "-o",
    "--output",
    callback=output_file,
    default="report.html",
    metavar="FILE",
    show_default=True,
    help="The HTML file; an existing one is replaced.",
)
@debug_option
def command(traces: tuple[Path, ...], output: Output) -> None:
    """Make one HTML page of traces written by `guessahead generate --trace TRACE.json`.

    It shows the text with the source of every token, the accepted and rejected guesses at each position, the
    steps over time, and the figures. Several traces are shown side by side. The page is one file and needs no
    network. A trace made with --compare also has the figures of plain decoding.
    """
    streams.require("stdout")
    from guessahead.report import read_trace, render

    page = render([read_trace(path) for path in traces])
    output.write(page)
    if output.path is not None:
        click.echo(output.path)

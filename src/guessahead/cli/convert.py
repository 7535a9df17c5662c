"""`guessahead convert`: conversion to another precision."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from guessahead.cli.base import debug_option
from guessahead.errors import ParameterError


@click.command("convert")
@click.argument("source", metavar="NAME|FILE")
@click.argument("target", type=click.Path(path_type=Path, dir_okay=False), metavar="TARGET.gguf")
@click.option("--type", "kind", required=True, metavar="FORMAT", help="F32, F16, BF16, Q8_0, Q4_1, ...")
@click.option("--force", is_flag=True, help="Replace TARGET if it exists.")
@debug_option
def command(source: str, target: Path, kind: str, force: bool) -> None:
    """Convert all matrices of a model to another format.

    A matrix whose rows do not fit the format's blocks gets a similar format, which is reported.
    """
    from guessahead.models.convert import convert
    from guessahead.models.load import resolve

    if target.exists() and not force:
        raise ParameterError(f"{target} exists; --force replaces it")
    if not target.absolute().parent.is_dir():
        raise ParameterError(f"{target}: there is no folder {target.absolute().parent}")
    done = convert(resolve(source), target, kind, progress=_progress if sys.stderr.isatty() else None)
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", nl=False, err=True)
    for name, fallback in done.fallbacks.items():
        click.echo(f"{name} does not fit into {done.type.name}: {fallback.name}", err=True)
    click.echo(f"{done.path}: {done.num_tensors} tensors, {done.path.stat().st_size / 1e6:.0f} MB", err=True)


def _progress(num_done: int, num_tensors: int, name: str) -> None:
    click.echo(f"\r\x1b[K{num_done}/{num_tensors} {name}", nl=False, err=True)

"""`guessahead models`: what the catalogue has."""

from __future__ import annotations

import json
from typing import Any

import click

from guessahead import catalogue
from guessahead.cli.base import debug_option


@click.command("models")
@click.option("--json", "as_json", is_flag=True, help="A JSON list instead of a table.")
@debug_option
def command(as_json: bool) -> None:
    """List the models of the catalogue: names, sizes, and whether they are in the cache.

    Besides these, every command takes the path of a GGUF file.
    """
    rows = [_describe(name) for name in catalogue.entries()]
    if as_json:
        click.echo(json.dumps(rows))
    else:
        _print_table(rows)


def _describe(name: str) -> dict[str, Any]:
    from guessahead.fetch import cached

    entry, path = catalogue.find(name), cached(name)
    return {
        "name": name,
        "title": entry.title,
        "license": entry.license,
        "num_bytes": entry.num_bytes,
        "path": None if path is None else str(path),
        "tensors": entry.tensors,
        "file": entry.file,
        "hub": entry.hub,
        "sha256": entry.sha256,
        "default": name == catalogue.DEFAULT_MODEL,
    }


def _print_table(rows: list[dict[str, Any]]) -> None:
    from guessahead.fetch import cache_dir

    width = max(len(row["name"]) for row in rows)
    for row in rows:
        state = "in the cache" if row["path"] else "not fetched"
        default = " (default)" if row["default"] else ""
        size = f"{row['num_bytes'] / 1e6:6.0f} MB"
        click.echo(f"{row['name']:{width}}  {size}  {state}  {row['title']}, {row['license']}{default}")
        click.echo(f"{'':{width}}  {row['file']}")
        click.echo(f"{'':{width}}  {row['tensors']}\n")
    click.echo(f"cache: {cache_dir()}")

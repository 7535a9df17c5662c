"""`guessahead models`: the models of the catalogue."""

from __future__ import annotations

import json
import math
from typing import Any

import click

from guessahead.cli.base import debug_option
from guessahead.models import catalogue


@click.command("models")
@click.option(
    "--info",
    "model",
    metavar="MODEL",
    help="Print the memory that this model needs, without loading it.",
)
@click.option("--json", "as_json", is_flag=True, help="JSON instead of a table.")
@debug_option
def command(model: str | None, as_json: bool) -> None:
    """List the models of the catalogue: names, sizes, and whether they are in the cache.

    Besides these, every command accepts the path of a GGUF file or of a Hugging Face model folder, or the
    name of a model on the hub.
    """
    if model is not None:
        facts = _info(model)
        click.echo(json.dumps(facts) if as_json else _info_text(facts))
        return
    rows = [_describe(name) for name in catalogue.entries()]
    if as_json:
        click.echo(json.dumps(rows))
    else:
        _print_table(rows)


def _info(model: str) -> dict[str, Any]:
    """Facts from the header of a model."""
    from guessahead.engines.native import NativeEngine
    from guessahead.models import memory
    from guessahead.models.load import open_checkpoint, resolve

    path = resolve(model)
    with open_checkpoint(path) as file:
        needs = NativeEngine.needs(file)
        tensors = [tensor for tensor in file.tensors.values() if len(tensor.shape) > 1]
        architecture = file.metadata["general.architecture"]
        formats = sorted({tensor.type.name for tensor in tensors})
        num_parameters = sum(math.prod(tensor.shape) for tensor in file.tensors.values())
    return {
        "path": str(path),
        "architecture": architecture,
        "tensors": formats,
        "num_parameters": num_parameters,
        "context": needs.context,
        "weight_bytes": needs.weights,
        "buffer_bytes": needs.buffers,
        "cache_bytes_per_token": needs.per_token,
        "full_context_bytes": needs.full_context,
        "available_bytes": memory.available(),
    }


def _info_text(facts: dict[str, Any]) -> str:
    from guessahead.models.memory import shown

    per_token, context = facts["cache_bytes_per_token"], facts["context"]
    free = facts["available_bytes"]
    lines = [
        ("model", f"{facts['path']}"),
        (
            "",
            f"{facts['architecture']}, {facts['num_parameters']:,} parameters, {', '.join(facts['tensors'])}",
        ),
        ("weights", shown(facts["weight_bytes"])),
        ("buffers", f"about {shown(facts['buffer_bytes'])} at most"),
        ("cache", f"{shown(1000 * per_token)} for 1,000 tokens (half of it with --cache f16)"),
        (
            "",
            f"{shown(facts['full_context_bytes'])} for the full context of {context:,} tokens, the work of "
            "passes included (--context bounds it)",
        ),
        ("free", "unknown" if free is None else shown(free)),
    ]
    return "\n".join(f"{name:9}{text}".rstrip() for name, text in lines)


def _describe(name: str) -> dict[str, Any]:
    from guessahead.models.download import cached

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
    from guessahead.files import cache_dir

    width = max(len(row["name"]) for row in rows)
    for row in rows:
        state = "in the cache" if row["path"] else "not fetched"
        default = " (default)" if row["default"] else ""
        size = f"{row['num_bytes'] / 1e6:6.0f} MB"
        click.echo(f"{row['name']:{width}}  {size}  {state}  {row['title']}, {row['license']}{default}")
        click.echo(f"{'':{width}}  {row['file']}")
        click.echo(f"{'':{width}}  {row['tensors']}\n")
    click.echo(f"cache: {cache_dir()}")

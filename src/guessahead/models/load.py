"""Loading a model by name or file; problems with a model are reported here, before generation."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from guessahead.checkpoints.gguf import GGUFFile
from guessahead.engines import registry
from guessahead.engines.registry import DEFAULT_ENGINE, RunSettings
from guessahead.errors import ModelError
from guessahead.models import catalogue, memory
from guessahead.models.download import Progress, fetch
from guessahead.models.lower_precision import LowerPrecision, bits_per_weight
from guessahead.text.chat_template import ChatTemplate
from guessahead.text.tokenizer import Tokenizer

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")

if TYPE_CHECKING:
    from guessahead.protocols import Engine


def resolve(model: str | os.PathLike[str], *, progress: Progress | None = None) -> Path:
    """The GGUF file or model folder of a model, downloaded if necessary.

    model: a name of the catalogue, a path, or the name of a model on the Hugging Face hub ("org/model").
    progress: see `fetch`. Raises ModelError if there is none.
    """
    name = os.fspath(model)
    if name in catalogue.entries():
        return fetch(name, progress=progress)
    path = Path(name).expanduser()
    if path.is_dir():
        if not (path / "config.json").exists():
            raise ModelError(f"{name!r} is a folder without config.json: not a model")
        return path
    if path.exists():
        return path
    if _HUB_ID.fullmatch(name) and not name.endswith(".gguf"):
        from guessahead.models.hub import snapshot

        return snapshot(name)
    known = ", ".join(catalogue.entries())
    raise ModelError(f"{name!r} is neither a file nor a model of the catalogue ({known})")


def open_checkpoint(path: Path) -> GGUFFile:
    """A GGUF file, or a model folder read like one. Raises ModelError."""
    if path.is_dir():
        from guessahead.checkpoints.folders import ModelFolder

        return ModelFolder(path)
    return GGUFFile.open(path)


def identity(model: str) -> str:
    """The key of a model's saved settings: its name in the catalogue, or its absolute path."""
    return model if model in catalogue.entries() else str(Path(model).expanduser().absolute())


def _num_rows(file: GGUFFile) -> int:
    """The number of ids that the model knows; 0 if its table is missing, which the engine reports."""
    table = file.tensors.get("token_embd.weight")
    return 0 if table is None else int(table.shape[0])


@dataclass(frozen=True, slots=True)
class LoadedParts:
    """The parts of a loaded model. name: for messages. identity: see `identity`.

    lower_precision: copies of the model; None if it has none.
    """

    engine: Engine
    lower_precision: LowerPrecision | None
    tokenizer: Tokenizer
    chat_template: ChatTemplate | None
    name: str
    identity: str


def load_parts(
    model: str | os.PathLike[str],
    settings: RunSettings,
    *,
    engine: str = DEFAULT_ENGINE,
    progress: Progress | None = None,
) -> LoadedParts:
    """Load a model. Arguments and errors are those of `guessahead.load`."""
    from guessahead.text.folder_tokenizer import read_text_parts

    load_engine = registry.find(engine)
    settings = replace(settings, check_memory=memory.check)
    path = resolve(model, progress=progress)
    with open_checkpoint(path) as file:
        if path.is_dir():
            tokenizer, chat_template = read_text_parts(path, _num_rows(file))
        else:
            tokenizer = Tokenizer.from_gguf(file.metadata, _num_rows(file))
            chat_template = ChatTemplate.from_gguf(file.metadata, tokenizer)
        bits = bits_per_weight(file)
        loaded = load_engine(file, settings)  # after the tokenizer, to fail early
    name = os.fspath(model)
    if path.is_dir():
        shown = path.name if Path(name).is_dir() else name
        return LoadedParts(loaded, None, tokenizer, chat_template, shown, identity(name))
    shown = name if name in catalogue.entries() else path.stem

    def load_copy(copy: Path) -> Engine:
        with GGUFFile.open(copy) as file:
            return load_engine(file, settings)

    lower = LowerPrecision(path, shown, bits, load_copy)
    return LoadedParts(loaded, lower, tokenizer, chat_template, shown, identity(name))

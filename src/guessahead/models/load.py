"""Names and files -> loaded models. What can be wrong with a model is found here, before generating."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from guessahead.errors import ModelError
from guessahead.models import catalogue
from guessahead.models.download import Progress, fetch
from guessahead.models.gguf import GGUFFile

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")

if TYPE_CHECKING:
    from guessahead.engines.base import Engine
    from guessahead.model import LanguageModel


def resolve(model: str | os.PathLike[str], *, progress: Progress | None = None) -> Path:
    """The GGUF file or model folder of a model: a name of the catalogue (fetched if need be), a path, or the
    name of a model on the Hugging Face hub ("org/model", fetched if need be).

    progress: see `fetch`. Raises ModelError where there is no such thing.
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
        from guessahead.models.folders import snapshot

        return snapshot(name)
    known = ", ".join(catalogue.entries())
    raise ModelError(f"{name!r} is neither a file nor a model of the catalogue ({known})")


def open_checkpoint(path: Path) -> GGUFFile:
    """A GGUF file, or a model folder read like one. Raises ModelError."""
    if path.is_dir():
        from guessahead.models.folders import ModelFolder

        return ModelFolder(path)
    return GGUFFile.open(path)


def load(
    model: str | os.PathLike[str] = catalogue.DEFAULT_MODEL,
    *,
    threads: int | None = None,
    context: int | None = None,
    activations: Literal["int8", "f32"] = "int8",
    cache: Literal["f32", "f16"] = "f32",
    progress: Progress | None = None,
) -> LanguageModel:
    """Load a model, ready to generate.

    model: a name of the catalogue, the path of a GGUF file or of a Hugging Face model folder, or a hub id.
    threads: worker threads; None = one for each core this process may use.
    context: most tokens of a sequence; None = what the model was made for.
    activations: how quantised weights meet their inputs: "int8" (fast, the default) or "f32" (the simple,
        slow route for checks). Weights that are not quantised always take f32.
    cache: keys and values as "f32", or as "f16": half the memory, faster at long contexts, and a (slightly)
        different model: its tokens are identical among themselves, not to those of f32.
    progress: told how far a download is; None = a bar on stderr.
    Raises ModelError, TokenizerError or ParameterError, in one line.
    """
    from guessahead.engines.native import NativeEngine
    from guessahead.model import LanguageModel
    from guessahead.models.folders import read_text_parts
    from guessahead.models.lower_precision import bits_per_weight, requantised
    from guessahead.text.stream import ChatTemplate
    from guessahead.text.tokenizer import Tokenizer

    path = resolve(model, progress=progress)
    with open_checkpoint(path) as file:
        if path.is_dir():
            tokenizer, chat_template = read_text_parts(path)
        else:
            tokenizer = Tokenizer.from_gguf(file.metadata)  # before the engine: quick to fail
            chat_template = ChatTemplate.from_gguf(file.metadata, tokenizer)
        bits = bits_per_weight(file)
        engine = NativeEngine.from_gguf(
            file, threads=threads, context=context, activations=activations, cache=cache
        )
    if tokenizer.vocab_size > engine.info.vocab_size:
        raise ModelError(
            f"{path}: the tokenizer has {tokenizer.vocab_size} tokens, "
            f"the model only {engine.info.vocab_size}: a damaged or mismatched file"
        )
    name = os.fspath(model)

    def at_precision(kind: str) -> Engine:
        with GGUFFile.open(requantised(path, kind)) as file:
            return NativeEngine.from_gguf(
                file, threads=threads, context=context, activations=activations, cache=cache
            )

    if path.is_dir():
        return LanguageModel(engine, tokenizer, chat_template, path.name if Path(name).is_dir() else name)
    shown = name if name in catalogue.entries() else path.stem
    return LanguageModel(engine, tokenizer, chat_template, shown, at_precision, bits)

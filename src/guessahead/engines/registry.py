"""Engines by name.

An engine's module is imported on first use. Other packages add engines through the entry-point group
`guessahead.engines` (name = "package.module:function"; the function is a `LoadEngine`).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from guessahead.errors import ParameterError

if TYPE_CHECKING:
    from guessahead.checkpoints.gguf import GGUFFile
    from guessahead.protocols import Engine

GROUP: Final = "guessahead.engines"
DEFAULT_ENGINE: Final = "native"

_BUILT_IN: Final = {"native": "guessahead.engines.native:load_engine"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """The settings with which an engine runs a model (see `guessahead.load`).

    check_memory: called with the memory needs and the file before any memory is allocated.
    """

    threads: int | None = None
    context: int | None = None
    activations: str = "int8"
    cache: str = "f32"
    check_memory: Callable[[Any, Path], None] = lambda needs, path: None


LoadEngine = Callable[["GGUFFile", RunSettings], "Engine"]
"""Creates the engine of an opened model; raises ModelError or ParameterError if it cannot run the model."""


def names() -> tuple[str, ...]:
    """All known engines, sorted."""
    return tuple(sorted({*_BUILT_IN, *(point.name for point in entry_points(group=GROUP))}))


def find(name: str) -> LoadEngine:
    """The function that loads this engine. Raises ParameterError with the known names."""
    if name in _BUILT_IN:
        module, _, attribute = _BUILT_IN[name].partition(":")
        found: LoadEngine = getattr(importlib.import_module(module), attribute)
        return found
    points = entry_points(group=GROUP, name=name)
    if not points:
        raise ParameterError(f"unknown engine {name!r}; known: {', '.join(names())}")
    loaded: LoadEngine = next(iter(points)).load()
    return loaded

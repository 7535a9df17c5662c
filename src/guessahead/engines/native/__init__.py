"""The CPU engine: Python reads the checkpoint and describes a pass, C++ (guessahead._native) runs it.

Reading order: engine (passes over rows; jobs, sequence), architectures (a page for each family), builder (the
operations of a pass), checkpoint, metadata and weights (the content of a file), head (the passes of a draft
head).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from guessahead.engines.native.engine import NativeEngine
from guessahead.engines.native.sequence import NativeSequence

if TYPE_CHECKING:
    from guessahead.checkpoints.gguf import GGUFFile
    from guessahead.engines.registry import RunSettings

__all__ = ["NativeEngine", "NativeSequence", "load_engine"]


def load_engine(file: GGUFFile, settings: RunSettings) -> NativeEngine:
    """A `LoadEngine` (engines/registry.py)."""
    needs = NativeEngine.needs(file, threads=settings.threads, context=settings.context, cache=settings.cache)
    settings.check_memory(needs, file.path)
    return NativeEngine.from_gguf(
        file,
        threads=settings.threads,
        context=settings.context,
        activations=settings.activations,
        cache=settings.cache,
    )

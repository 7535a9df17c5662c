"""GGUF files: `GGUFFile` reads them, memory-mapped."""

from guessahead.gguf.reader import GGUFFile, TensorInfo
from guessahead.gguf.types import GGMLType

__all__ = ["GGMLType", "GGUFFile", "TensorInfo"]

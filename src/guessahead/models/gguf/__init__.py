"""GGUF files: `GGUFFile` reads (memory-mapped), `write_gguf` writes, `dequantize` and `quantize` convert."""

from guessahead.models.gguf.header import TensorInfo
from guessahead.models.gguf.quantize import CONVERTIBLE, dequantize, quantize, step_sizes
from guessahead.models.gguf.reader import GGUFFile
from guessahead.models.gguf.types import GGMLType, MetadataValue
from guessahead.models.gguf.writer import Encoded, NewTensor, write_gguf

__all__ = [
    "CONVERTIBLE",
    "Encoded",
    "GGMLType",
    "GGUFFile",
    "MetadataValue",
    "NewTensor",
    "TensorInfo",
    "dequantize",
    "quantize",
    "step_sizes",
    "write_gguf",
]

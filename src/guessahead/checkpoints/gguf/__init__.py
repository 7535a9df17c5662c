"""GGUF files: `GGUFFile` reads (memory-mapped), `write_gguf` writes, `dequantize` and `quantize` convert.

Reading order: types (the formats and their sizes), header and reader, parts (a model in several files),
writer; then formats, blocks, superblocks and bits (the layout of each format), quantize; rotation (rotary
embeddings as GGUF describes them).
"""

from guessahead.checkpoints.gguf.header import TensorInfo
from guessahead.checkpoints.gguf.quantize import CONVERTIBLE, dequantize, quantize, step_sizes
from guessahead.checkpoints.gguf.reader import GGUFFile
from guessahead.checkpoints.gguf.types import GGMLType, MetadataValue
from guessahead.checkpoints.gguf.writer import Encoded, NewTensor, write_gguf

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

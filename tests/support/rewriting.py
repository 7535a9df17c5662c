"""A model file again with other weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from guessahead.models.gguf import Encoded, GGUFFile, NewTensor, dequantize, quantize, write_gguf
from guessahead.types import Float32


def rewrite(source: Path, target: Path, change: Callable[[str, Float32], Float32]) -> Path:
    """change: tensor name and values -> new values of the same shape. Formats and metadata stay."""
    with GGUFFile.open(source) as file:
        tensors = []
        for name, tensor in file.tensors.items():
            values = dequantize(np.frombuffer(tensor.data, np.uint8), tensor.type).reshape(tensor.shape)
            data = quantize(change(name, values), tensor.type)
            tensors.append(NewTensor(name, tensor.type, tensor.shape, lambda data=data: (data,)))
        write_gguf(target, {key: Encoded(value) for key, value in file.encoded.items()}, tensors)
    return target

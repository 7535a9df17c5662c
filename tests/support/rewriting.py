"""A model file again with other weights, with one that is not finite, or with other tokens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from guessahead.checkpoints.gguf import Encoded, GGUFFile, NewTensor, dequantize, quantize, write_gguf
from guessahead.text.vocabulary import KEY, USER_DEFINED
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


def with_tokens(source: Path, target: Path, num_tokens: int, **roles: int) -> Path:
    """The first `num_tokens` tokens, or further user-defined ones (`<extra 0>`, ...). roles: ids by name."""
    with GGUFFile.open(source) as file:
        tokens = list(file.metadata[KEY + "tokens"])[:num_tokens]
        kinds = np.array(file.metadata[KEY + "token_type"], np.int32)[:num_tokens]
        extra = num_tokens - len(tokens)
        changed = {
            KEY + "tokens": [*tokens, *(f"<extra {index}>" for index in range(extra))],
            KEY + "token_type": np.concatenate([kinds, np.full(extra, USER_DEFINED, np.int32)]),
        }
        tensors = [
            NewTensor(name, tensor.type, tensor.shape, lambda data=tensor.data: (data,))
            for name, tensor in file.tensors.items()
        ]
        kept = {key: Encoded(value) for key, value in file.encoded.items()}
        write_gguf(
            target, kept | changed | {f"{KEY}{name}_token_id": i for name, i in roles.items()}, tensors
        )
    return target


def broken(source: Path, target: Path, stem: str, value: float, row: int = 60) -> Path:
    """The model with one number that is not finite: in a matrix of blocks, a scale."""
    with GGUFFile.open(source) as file:
        tensors = []
        for name, tensor in file.tensors.items():
            data = np.frombuffer(tensor.data, np.uint8).copy()
            if name == f"{stem}.weight":
                at = (
                    0
                    if len(tensor.shape) == 1
                    else min(row, tensor.shape[0] - 1) * len(data) // tensor.shape[0]
                )
                kind = {"F32": np.float32, "BF16": np.uint16}.get(tensor.type.name, np.float16)
                number = np.array([value], np.float32)
                bits = (
                    (number.view(np.uint32) >> 16).astype(kind) if kind is np.uint16 else number.astype(kind)
                )
                data[at : at + bits.nbytes] = bits.view(np.uint8)
            tensors.append(NewTensor(name, tensor.type, tensor.shape, lambda data=data: (data,)))
        write_gguf(target, {key: Encoded(each) for key, each in file.encoded.items()}, tensors)
    return target

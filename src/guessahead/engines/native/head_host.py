"""The parts that an engine shares with the draft heads of its model."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

import guessahead._native as _native
from guessahead.types import Float32


@dataclass(frozen=True, slots=True)
class HeadHost:
    """fingerprint: of the model (see below). embeddings: the table of its tokens.

    num_layers: of the model. context: maximum positions of a sequence. int8: quantised weights are multiplied
        with int8 inputs.
    """

    fingerprint: str
    pool: _native.Pool
    embeddings: _native.Matrix
    isa: str
    int8: bool
    num_layers: int
    context: int


def fingerprint(architecture: str, num_layers: int, vocab_size: int, norm: Float32) -> str:
    """A name for a model by its sizes and its last norm, which all its quantised versions share.

    norm: float32[width]; rounded to bfloat16, because some files store it in that format.
    """
    sizes = repr((architecture, num_layers, vocab_size)).encode()
    bits = np.ascontiguousarray(norm, np.float32).view(np.uint32)
    return hashlib.sha256(sizes + (bits >> 16).astype("<u2").tobytes()).hexdigest()[:16]

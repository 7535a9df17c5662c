"""Rotary embeddings: the frequencies of a head's pairs, and which elements are a pair."""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np

from guessahead.types import Int32


def rotation_frequencies(rope_dim: int, base: float) -> list[float]:
    """base^(-2i/rope_dim), i < rope_dim/2, correctly rounded: a power function of a C library is not."""
    with localcontext() as context:
        context.prec = 40
        log = Decimal(base).ln()
        return [float((-2 * i * log / rope_dim).exp()) for i in range(rope_dim // 2)]


def halves_from_pairs(num_heads: int, head_dim: int) -> Int32:
    """Row order that turns rotation of neighbours (2i, 2i + 1) into rotation of (i, i + head_dim/2).

    GGUF files of the llama architecture keep q and k for the former; the kernels know the latter only.
    """
    within = np.arange(head_dim).reshape(head_dim // 2, 2).T.reshape(-1)
    return (np.arange(num_heads)[:, None] * head_dim + within).reshape(-1).astype(np.int32)

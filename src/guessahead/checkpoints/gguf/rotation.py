"""Rotary embeddings: the frequencies of a head, how they are stretched, and which elements are a pair.

Powers and logarithms are correctly rounded: those of a C library are not, and differ from one to another.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext

import numpy as np

from guessahead.types import Int32

_DIGITS = 40
MAX_CONTEXT = 1 << 20  # positions, of all models


@dataclass(frozen=True, slots=True)
class Rotation:
    """frequencies: of the pairs of a head. gain: of the scores, as cosines and sines times a factor have."""

    frequencies: list[float]
    gain: float = 1.0


@dataclass(frozen=True, slots=True)
class Scaling:
    """How a model's rotation was stretched beyond the context it was first trained with.

    kind: "none", "linear", "yarn" or "longrope". factor: of the context. original: the first context.
    beta_fast, beta_slow: turns within it (yarn). attention_factor: of cosines and sines, for yarn in addition
    to what it has of its own.
    """

    kind: str = "none"
    factor: float = 1.0
    original: int = 0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float = 1.0


def rotation_frequencies(rope_dim: int, base: float) -> list[float]:
    """base^(-2i/rope_dim), i < rope_dim/2."""
    with localcontext() as context:
        context.prec = _DIGITS
        log = Decimal(base).ln()
        return [float((-2 * i * log / rope_dim).exp()) for i in range(rope_dim // 2)]


def linear(frequencies: Sequence[float], factor: float) -> Rotation:
    """Positions divided by the factor (Chen et al. 2023)."""
    return Rotation([each / factor for each in frequencies])


def yarn(frequencies: Sequence[float], base: float, scaling: Scaling) -> Rotation:
    """Fast pairs as they were, slow ones stretched, those between in part (Peng et al. 2023, section 3).

    base: of the frequencies, above 1.
    """
    rope_dim = 2 * len(frequencies)

    def pair(num_turns: float) -> float:
        """The pair that turns so often within the original context."""
        turns = scaling.original / (num_turns * 2 * math.pi)
        return rope_dim * _log(turns) / (2 * _log(base))

    low = max(math.floor(pair(scaling.beta_fast)), 0)
    high = min(math.ceil(pair(scaling.beta_slow)), rope_dim - 1)
    stretched = []
    for i, frequency in enumerate(frequencies):
        share = min(max((i - low) / max(high - low, 0.001), 0.0), 1.0)
        stretched.append(frequency / scaling.factor * share + frequency * (1.0 - share))
    factor = 0.1 * _log(scaling.factor) + 1.0 if scaling.factor > 1.0 else 1.0
    return Rotation(stretched, (factor * scaling.attention_factor) ** 2)


def longrope_attention_factor(factor: float, original: int) -> float:
    """What cosines and sines are multiplied by (Ding et al. 2024, as Phi-3 has it)."""
    return math.sqrt(1.0 + _log(factor) / _log(original)) if factor > 1.0 else 1.0


def _log(value: float) -> float:
    with localcontext() as context:
        context.prec = _DIGITS
        return float(Decimal(value).ln())


def halves_from_pairs(num_heads: int, head_dim: int) -> Int32:
    """Row order that turns rotation of neighbours (2i, 2i + 1) into rotation of (i, i + head_dim/2).

    GGUF files of the llama architecture keep q and k for the former; the kernels know the latter only.
    """
    within = np.arange(head_dim).reshape(head_dim // 2, 2).T.reshape(-1)
    return (np.arange(num_heads)[:, None] * head_dim + within).reshape(-1).astype(np.int32)

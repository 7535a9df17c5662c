"""How rotations are stretched for long contexts, in float64, from transformers' `rope_parameters`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Float64 = npt.NDArray[np.float64]

LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 128,
}
YARN = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 128}
YARN_STEEP = YARN | {"factor": 3.0, "beta_fast": 12.0, "beta_slow": 2.0}
LONGROPE = {
    "rope_type": "longrope",
    "attention_factor": 1.25,
    "original_max_position_embeddings": None,
    "short_factor": None,
    "long_factor": None,
}


def plain(rope_dim: int, base: float) -> Float64:
    frequencies: Float64 = base ** -(np.arange(0, rope_dim, 2) / rope_dim)
    return frequencies


def longrope_factors(name: str, rope_dim: int) -> list[float]:
    """As Phi-3's: short ones a little above 1, long ones rising; each exact in float32."""
    count = rope_dim // 2
    random = np.random.default_rng([count, len(name)])
    low, high = (1.0, 1.5) if name == "short_factor" else (1.0, 40.0)
    values = np.sort(random.uniform(low, high, count)).astype(np.float32)
    return [float(value) for value in values]


def stretched(dim: int, settings: Mapping[str, Any], length: int) -> tuple[Float64, float]:
    """Frequencies of a head of `dim` elements, for a text of so many tokens; the factor of cos and sin."""
    rotated, base = int(dim * settings.get("partial_rotary_factor", 1.0)), settings["rope_theta"]
    frequencies, kind = plain(rotated, base), settings.get("rope_type", "default")
    if kind == "llama3":
        return llama3(frequencies, settings), 1.0
    if kind == "yarn":
        factor = settings.get("attention_factor") or 1.0 + 0.1 * np.log(settings["factor"])
        return yarn(frequencies, settings), factor
    if kind == "longrope":
        long = length > settings["original_max_position_embeddings"]
        return frequencies / settings["long_factor" if long else "short_factor"], settings["attention_factor"]
    return frequencies / settings.get("factor", 1.0), 1.0


def llama3(frequencies: Float64, settings: Mapping[str, Any]) -> Float64:
    """Long waves are stretched by the factor, short ones not, with a smooth step between them."""
    low, high = settings["low_freq_factor"], settings["high_freq_factor"]
    turns = settings["original_max_position_embeddings"] * frequencies / (2 * np.pi)
    smooth = np.clip((turns - low) / (high - low), 0, 1)
    return (1 - smooth) * frequencies / settings["factor"] + smooth * frequencies


def yarn(frequencies: Float64, settings: Mapping[str, Any]) -> Float64:
    """The same by the number of the pair: a ramp between those that turn beta_fast and beta_slow times."""
    wavelengths = 2 * np.pi / frequencies
    turns = settings["original_max_position_embeddings"] / wavelengths
    per_pair = np.log(settings["rope_theta"]) / len(frequencies)  # ln of the turns falls by so much
    first = np.floor(np.log(turns[0] / settings.get("beta_fast", 32.0)) / per_pair)
    last = np.ceil(np.log(turns[0] / settings.get("beta_slow", 1.0)) / per_pair)
    first, last = max(first, 0), min(last, 2 * len(frequencies) - 1)
    ramp = np.clip((np.arange(len(frequencies)) - first) / (last - first), 0, 1)
    return frequencies * (1 - ramp) + frequencies / settings["factor"] * ramp

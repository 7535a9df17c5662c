"""Scaled rotary embeddings of a config.json -> what a GGUF file of the same model holds of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

import numpy as np

from guessahead.models.gguf import MetadataValue
from guessahead.types import Float32

# Kind -> settings that are read. Any other one would change something, and is refused.
_SETTINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "default": (),
    "linear": ("factor",),
    "yarn": ("factor", "original_max_position_embeddings", "beta_fast", "beta_slow"),
    "llama3": ("factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor"),
}
_GGUF_NAMES: Final = {
    "factor": "factor",
    "original_max_position_embeddings": "original_context_length",
    "beta_fast": "yarn_beta_fast",
    "beta_slow": "yarn_beta_slow",
}
_ELSEWHERE: Final = ("type", "rope_type", "rope_theta", "partial_rotary_factor")


class RopeScaling:
    """kind, and its settings, from `rope_scaling` (or `rope_parameters`, its newer name)."""

    def __init__(self, config: Mapping[str, Any], fail: Callable[[str], NoReturn]) -> None:
        """fail: called with what is wrong, where a kind or setting is not supported."""
        self._fail = fail
        self._key = "rope_parameters" if config.get("rope_parameters") is not None else "rope_scaling"
        found = config.get(self._key)
        self._settings: Mapping[str, Any] = {"type": "default"} if found is None else found
        if not isinstance(self._settings, dict):
            self._refuse()
        kind = self._settings.get("rope_type", self._settings.get("type"))
        if not isinstance(kind, str) or kind not in _SETTINGS:
            self._refuse()
        self.kind: Final = kind
        if any(name not in (*_SETTINGS[kind], *_ELSEWHERE) for name in self._settings):
            self._refuse()
        if self._settings.get("partial_rotary_factor", 1.0) != 1.0:
            fail("rotating a part of each head is not supported")

    def metadata(self) -> dict[str, MetadataValue]:
        """Under GGUF's names, behind the architecture's."""
        if self.kind not in ("linear", "yarn"):
            return {}
        found: dict[str, MetadataValue] = {"rope.scaling.type": self.kind}
        for name in _SETTINGS[self.kind]:
            if name in self._settings or name == "factor":
                value = self._number(name)
                whole = name == "original_max_position_embeddings"
                found[f"rope.scaling.{_GGUF_NAMES[name]}"] = int(value) if whole else float(np.float32(value))
        return found

    def divisors(self, frequencies: list[float]) -> Float32 | None:
        """Of the frequencies, for Llama 3's kind: long waves are stretched, short ones not."""
        if self.kind != "llama3":
            return None
        factor, original, low, high = (self._number(name) for name in _SETTINGS["llama3"])
        if high <= low:
            self._refuse()
        divisors = []
        for frequency in frequencies:
            turns = original * frequency / (2 * math.pi)
            kept = min(max((turns - low) / (high - low), 0.0), 1.0)
            divisors.append(1.0 / ((1.0 - kept) / factor + kept))
        return np.array(divisors, np.float32)

    def _number(self, name: str) -> float:
        value = self._settings.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 1e-3 <= value <= 1e6:
            self._fail(f"{name} of {self._key} is missing or not a positive number")
        return float(value)

    def _refuse(self) -> NoReturn:
        self._fail(f"{self._key} {repr(self._settings)[:80]} is not supported: scaled rotary embeddings")

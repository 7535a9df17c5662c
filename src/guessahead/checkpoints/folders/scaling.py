"""Conversion of the rotary settings of config.json to those of a GGUF file of the same model.

transformers 4 writes `rope_theta` and `rope_scaling`, transformers 5 `rope_parameters`; files contain either,
both or null. The rule is that of transformers 5: a `rope_scaling` that is not empty replaces
`rope_parameters`, and the base is in that object, else in `rope_theta`, else it is 10000.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, NoReturn

import numpy as np

from guessahead.checkpoints.gguf import MetadataValue
from guessahead.types import Float32

# Kind -> settings that are read; those of another kind are ignored (with a warning).
_SETTINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "default": (),
    "linear": ("factor",),
    "yarn": (
        "factor",
        "original_max_position_embeddings",
        "beta_fast",
        "beta_slow",
        "attention_factor",
        "mscale",
        "mscale_all_dim",
        "truncate",
    ),
    "llama3": ("factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor"),
}
_ORIGINAL: Final = "original_max_position_embeddings"
_ELSEWHERE: Final = ("type", "rope_type", "rope_theta", "partial_rotary_factor")
_DEFAULT_BASE: Final = 10000.0


class RopeScaling:
    """The rotary settings: kind; base, as float32; context, the stated maximum number of positions.

    ignored: settings that the kind does not have.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        context: int,
        layer_types: Collection[str],
        fail: Callable[[str], NoReturn],
    ) -> None:
        """context: max_position_embeddings. fail: called with a message for a wrong setting."""
        self._fail = fail
        self._key = "rope_scaling" if config.get("rope_scaling") else "rope_parameters"
        found = config.get(self._key) or {}
        if not isinstance(found, dict):
            self._refuse(found)
        self._settings: Final[dict[str, Any]] = dict(found)
        if any(key in layer_types for key in found):
            fail(f"{self._key} by layer types is not supported")
        kind = found["rope_type"] if "rope_type" in found else found.get("type", "default")
        if not isinstance(kind, str) or kind not in _SETTINGS:
            self._refuse(found)
        self.kind: Final = kind
        self._stated = context
        self._complete(config)
        read = {*_SETTINGS[kind], *_ELSEWHERE, _ORIGINAL}
        self.ignored: Final = tuple(f"{self._key}.{key}" for key in found if key not in read)
        self.base: Final = float(np.float32(self._number("rope_theta", 1e30)))

    def _complete(self, config: Mapping[str, Any]) -> None:
        """Add the settings from other places in the file."""
        settings = self._settings
        settings.setdefault("rope_theta", config.get("rope_theta", _DEFAULT_BASE))
        if config.get("partial_rotary_factor") is not None:
            settings.setdefault("partial_rotary_factor", config["partial_rotary_factor"])
        if settings.get("partial_rotary_factor") not in (None, 1):
            share = repr(settings["partial_rotary_factor"])[:40]
            self._fail(f"partial_rotary_factor {share} is not supported: rotating a part of each head")
        if _ORIGINAL in config:  # has precedence over the one within
            settings[_ORIGINAL] = config[_ORIGINAL]
        settings.setdefault(_ORIGINAL, self._stated)
        if not settings.get("truncate", True):
            self._fail(f"truncate {settings['truncate']!r} of {self._key} is not supported")
        if self.kind == "yarn" and settings.get("factor", 0) is None:
            settings["factor"] = self._stated / self._number(_ORIGINAL)

    @property
    def context(self) -> int:
        """The context: by YaRN or linear scaling it may be longer than max_position_embeddings."""
        if self.kind == "yarn":
            return max(self._stated, int(self._number(_ORIGINAL) * self._number("factor")))
        if self.kind == "linear":
            return max(self._stated, int(self._stated * self._number("factor")))
        return self._stated

    def metadata(self) -> dict[str, MetadataValue]:
        """The settings by GGUF's names after the architecture."""
        found: dict[str, MetadataValue] = {"rope.freq_base": self.base}
        if self.kind not in ("linear", "yarn"):
            return found
        factor = self._number("factor")
        found["rope.scaling.type"] = self.kind
        found["rope.scaling.factor"] = float(np.float32(factor))
        if self.kind == "linear":
            return found
        original, fast, slow = (
            self._number(_ORIGINAL),
            self._optional("beta_fast", 32),
            self._optional("beta_slow", 1),
        )
        if original != int(original) or fast < slow:
            self._refuse(self._settings)
        found["rope.scaling.original_context_length"] = int(original)
        found["rope.scaling.yarn_beta_fast"] = float(np.float32(fast))
        found["rope.scaling.yarn_beta_slow"] = float(np.float32(slow))
        ratio = self._attention_factor(factor) / _magnitude(factor)
        if ratio != 1.0:
            found["rope.scaling.attn_factor"] = ratio
        return found

    def divisors(self, frequencies: list[float]) -> Float32 | None:
        """The divisors of the frequencies for Llama 3's kind, which stretches long waves only."""
        if self.kind != "llama3":
            return None
        factor, original, low, high = (self._number(name) for name in _SETTINGS["llama3"])
        if high <= low:
            self._refuse(self._settings)
        divisors = []
        for frequency in frequencies:
            turns = original * frequency / (2 * math.pi)
            kept = min(max((turns - low) / (high - low), 0.0), 1.0)
            divisors.append(1.0 / ((1.0 - kept) / factor + kept))
        return np.array(divisors, np.float32)

    def _attention_factor(self, factor: float) -> float:
        """The factor of cosines and sines (yarn)."""
        if self._settings.get("attention_factor") is not None:
            return self._number("attention_factor")
        if self._settings.get("mscale") and self._settings.get("mscale_all_dim"):
            above, below = (self._number(name) for name in ("mscale", "mscale_all_dim"))
            return _magnitude(factor, above) / _magnitude(factor, below)
        return _magnitude(factor)

    def _optional(self, name: str, default: float) -> float:
        return self._number(name) if self._settings.get(name) else default

    def _number(self, name: str, most: float = 1e6) -> float:
        value = self._settings.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 1e-3 <= value <= most:
            place = "rope_theta" if name == "rope_theta" else f"{name} of {self._key}"
            self._fail(f"{place} is missing or not a positive number")
        return float(value)

    def _refuse(self, found: object) -> NoReturn:
        self._fail(f"{self._key} {repr(found)[:80]} is not supported: scaled rotary embeddings")


def _magnitude(factor: float, weight: float = 1.0) -> float:
    """The factor of cosines and sines for a stretch by `factor` (Peng et al. 2023, section 3.4)."""
    return 0.1 * weight * math.log(factor) + 1.0 if factor > 1.0 else 1.0

"""config.json -> the numbers a GGUF file of the same model would hold, for the architectures known here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np

from guessahead.errors import ModelError
from guessahead.models.folders.scaling import RopeScaling
from guessahead.models.gguf import MetadataValue
from guessahead.models.gguf.rotation import rotation_frequencies
from guessahead.types import Float32


@dataclass(frozen=True, slots=True)
class Family:
    """architecture: GGUF's name. paired: GGUF keeps the rows of q and k in another order (see folder.py)."""

    architecture: str
    paired: bool


FAMILIES: Final[Mapping[str, Family]] = {
    "LlamaForCausalLM": Family("llama", paired=True),
    "MistralForCausalLM": Family("llama", paired=True),
    "Qwen2ForCausalLM": Family("qwen2", paired=False),
}
# Settings that change what is computed -> the values under which they change nothing.
_HARMLESS: Final[Mapping[str, tuple[object, ...]]] = {
    "hidden_act": ("silu",),
    "attention_bias": (False,),
    "mlp_bias": (False,),
    "partial_rotary_factor": (1, 1.0),
    "quantization_config": (),
    "use_sliding_window": (False,),
}
# GGUF's name behind the architecture -> config.json's, whole numbers.
_COUNTS: Final[Mapping[str, str]] = {
    "block_count": "num_hidden_layers",
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
}


class FolderConfig:
    """family, tied (the output matrix is the embedding), metadata under GGUF's keys."""

    def __init__(self, path: Path, config: Mapping[str, Any]) -> None:
        """path: of config.json, for messages. Errors: ModelError for what is missing or not supported."""
        self._path, self._config = path, config
        self.family: Final = self._family()
        self._refuse_what_is_unknown()
        self.scaling: Final = RopeScaling(config, self._fail)
        tied = config.get("tie_word_embeddings", False)
        if not isinstance(tied, bool):
            self._fail("tie_word_embeddings is neither true nor false")
        self.tied: Final = tied
        self.metadata: Final = self._metadata()

    def _fail(self, what: str) -> NoReturn:
        raise ModelError(f"{self._path}: {what}")

    def _family(self) -> Family:
        names = self._config.get("architectures")
        if not isinstance(names, list) or len(names) != 1 or not isinstance(names[0], str):
            self._fail("it does not name one architecture")
        if names[0] not in FAMILIES:
            self._fail(f"architecture {names[0][:80]!r} is not supported (only {', '.join(FAMILIES)})")
        return FAMILIES[names[0]]

    def _refuse_what_is_unknown(self) -> None:
        for key, harmless in _HARMLESS.items():
            value = self._config.get(key)
            if value is not None and value not in harmless:
                self._fail(f"{key} {_shown(value)} is not supported")
        # Qwen2 states a window that it does not use.
        window = self._config.get("sliding_window")
        if window is not None and "use_sliding_window" not in self._config:
            self._fail(f"sliding_window {_shown(window)} is not supported")

    def _metadata(self) -> dict[str, MetadataValue]:
        name = self.family.architecture
        found: dict[str, MetadataValue] = {"general.architecture": name}
        for key, own in _COUNTS.items():
            default = self._config.get("num_attention_heads") if own == "num_key_value_heads" else None
            found[f"{name}.{key}"] = self._count(own, default)
        if self._config.get("head_dim") is not None:
            found[f"{name}.attention.key_length"] = self._count("head_dim", None)
        found[f"{name}.attention.layer_norm_rms_epsilon"] = self._number("rms_norm_eps", 1e-6)
        found[f"{name}.rope.freq_base"] = self._number("rope_theta", 10000.0)
        scaling = self.scaling.metadata()
        if self.scaling.kind == "yarn":
            scaling = {"rope.scaling.original_context_length": found[f"{name}.context_length"]} | scaling
        return found | {f"{name}.{key}": value for key, value in scaling.items()}

    def rope_divisors(self) -> Float32 | None:
        """Of the frequencies of a head, where GGUF files hold them as a tensor."""
        name = self.family.architecture
        width, heads = (
            self.metadata[f"{name}.embedding_length"],
            self.metadata[f"{name}.attention.head_count"],
        )
        assert isinstance(width, int)
        assert isinstance(heads, int)
        head_dim = self.metadata.get(f"{name}.attention.key_length", width // heads)
        base = self.metadata[f"{name}.rope.freq_base"]
        assert isinstance(head_dim, int)
        assert isinstance(base, float)
        return self.scaling.divisors(rotation_frequencies(min(head_dim, 1 << 12), base))

    def _count(self, key: str, default: object) -> int:
        value = self._config.get(key)
        value = default if value is None else value
        if type(value) is not int or not 1 <= value < 1 << 31:
            self._fail(f"{key} is missing or not a positive whole number")
        return value

    def _number(self, key: str, default: float) -> float:
        """As float32, which a GGUF file has, so that both give the same bits."""
        rope = self._config.get("rope_parameters")
        value = self._config.get(key, rope.get(key) if isinstance(rope, dict) else None)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e30:
            self._fail(f"{key} is not a positive number")
        return float(np.float32(value))


def _shown(value: object) -> str:
    return repr(value)[:80]

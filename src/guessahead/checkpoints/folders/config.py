"""Conversion of config.json to the metadata of a GGUF file of the same model."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np

from guessahead.checkpoints.folders.scaling import RopeScaling
from guessahead.checkpoints.folders.settings import FAMILIES, Family, refusal, unknown
from guessahead.checkpoints.gguf import MetadataValue
from guessahead.checkpoints.gguf.rotation import MAX_CONTEXT, rotation_frequencies
from guessahead.errors import ModelError, ModelWarning
from guessahead.types import Float32

# GGUF's name after the architecture -> config.json's, whole numbers.
_COUNTS: Final[Mapping[str, str]] = {
    "block_count": "num_hidden_layers",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
}
_FULL, _SLIDING = "full_attention", "sliding_attention"


class FolderConfig:
    """config.json: family, tied (the output matrix is the embedding), metadata by GGUF's keys."""

    def __init__(self, path: Path, config: Mapping[str, Any]) -> None:
        """path: of config.json, for messages.

        Errors: ModelError for missing or unsupported settings. Warns once (ModelWarning) of unknown settings.
        """
        self._path, self._config = path, config
        self.family: Final = self._family()
        reason = refusal(self.family, config)
        if reason is not None:
            self._fail(reason)
        self.num_layers: Final = self._count("num_hidden_layers")
        layer_types = self._layer_types()
        stated = self._count("max_position_embeddings")
        labels = layer_types if "layer_types" in self.family.defaults else ()
        self.scaling: Final = RopeScaling(config, stated, labels, self._fail)
        tied = self._value("tie_word_embeddings")
        if not isinstance(tied, bool):
            self._fail("tie_word_embeddings is neither true nor false")
        self.tied: Final = tied
        self.metadata: Final = self._metadata(layer_types)
        self._warn()

    def _fail(self, what: str) -> NoReturn:
        raise ModelError(f"{self._path}: {what}")

    def _warn(self) -> None:
        found = (*unknown(self.family, self._config), *self.scaling.ignored)
        if found:
            shown = ", ".join(repr(key[:60]) for key in found[:8]) + (", ..." if len(found) > 8 else "")
            name = self._config["architectures"][0]
            text = f"{self._path}: ignored, as {name} has no such setting: {shown}"
            warnings.warn(text, ModelWarning, stacklevel=2)

    def _family(self) -> Family:
        names = self._config.get("architectures")
        if not isinstance(names, list) or len(names) != 1 or not isinstance(names[0], str):
            self._fail("it does not have exactly one architecture")
        if names[0] not in FAMILIES:
            self._fail(f"architecture {names[0][:80]!r} is not supported (only {', '.join(FAMILIES)})")
        return FAMILIES[names[0]]

    def _value(self, key: str) -> object:
        """A setting of the file, else the family's default. null is a value."""
        return self._config.get(key, self.family.defaults.get(key))

    def _given_types(self) -> tuple[str, ...]:
        given = self._config.get("layer_types") or ()
        if not isinstance(given, list | tuple) or not all(isinstance(each, str) for each in given):
            self._fail("layer_types is not a list of texts")
        return tuple(given)

    def _window(self) -> int | None:
        """The window of layers with local attention."""
        value = self._value("sliding_window")
        switched = "use_sliding_window" in self.family.defaults
        if value is None or (switched and self._value("use_sliding_window") is not True):
            return None
        return self._count("sliding_window")

    def _layer_types(self) -> tuple[str, ...]:
        """The type of each layer by the family; those of the file must be the same for all layers."""
        window = self._window() if "sliding_window" in self.family.defaults else None
        first = 0
        if "layer_types" in self.family.defaults and window is not None:
            first = self._count("max_window_layers", 0)
        implied = tuple(
            _SLIDING if window is not None and i >= first else _FULL for i in range(self.num_layers)
        )
        given = self._given_types()
        if "layer_types" in self.family.defaults:
            implied = given or implied
        elif given and given != implied:
            self._fail(f"layer_types {_shown(given)} is not supported")
        if len(implied) != self.num_layers or len(set(implied)) != 1 or not {_FULL, _SLIDING} >= set(implied):
            self._fail(
                f"layer_types {_shown(sorted(set(implied)))} is not supported (all layers must be alike)"
            )
        if implied[0] == _SLIDING and window is None:
            self._fail("layer_types has local attention, but there is no sliding_window")
        return implied

    def _metadata(self, layer_types: tuple[str, ...]) -> dict[str, MetadataValue]:
        found: dict[str, MetadataValue] = {key: self._count(own) for key, own in _COUNTS.items()}
        heads = found["attention.head_count"]
        given = self._value("num_key_value_heads")
        found["attention.head_count_kv"] = heads if given is None else self._count("num_key_value_heads")
        if self._config.get("head_dim") is not None:
            found["attention.key_length"] = self._count("head_dim")
        if layer_types[0] == _SLIDING:
            found["attention.sliding_window"] = self._count("sliding_window")
        found["attention.layer_norm_rms_epsilon"] = self._number("rms_norm_eps")
        found["context_length"] = max(
            self._count("max_position_embeddings"), min(self.scaling.context, MAX_CONTEXT)
        )
        name = self.family.architecture
        settings = {f"{name}.{key}": value for key, value in (found | self.scaling.metadata()).items()}
        return {"general.architecture": name, **settings}

    def rope_divisors(self) -> Float32 | None:
        """The divisors of a head's frequencies, if GGUF files store them as a tensor."""
        name = self.family.architecture
        width, heads = (
            self.metadata[f"{name}.embedding_length"],
            self.metadata[f"{name}.attention.head_count"],
        )
        assert isinstance(width, int)
        assert isinstance(heads, int)
        head_dim = self.metadata.get(f"{name}.attention.key_length", width // heads)
        assert isinstance(head_dim, int)
        return self.scaling.divisors(rotation_frequencies(min(head_dim, 1 << 12), self.scaling.base))

    def _count(self, key: str, least: int = 1) -> int:
        value = self._value(key)
        if type(value) is not int or not least <= value < 1 << 31:
            self._fail(f"{key} is missing or not a positive whole number")
        return value

    def _number(self, key: str) -> float:
        """A positive number as float32, as in a GGUF file, so that both give the same bits."""
        value = self._value(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e30:
            self._fail(f"{key} is not a positive number")
        return float(np.float32(value))


def _shown(value: object) -> str:
    return repr(value)[:80]

"""The settings of a GGUF file: those that are read, and the check that all others have no effect.

A setting that would change the computation is either used or refused. Defaults are llama.cpp's.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Mapping
from typing import Final, NoReturn

from guessahead.checkpoints.gguf import GGUFFile
from guessahead.checkpoints.gguf.rotation import MAX_CONTEXT, Scaling, longrope_attention_factor
from guessahead.errors import ModelError, ModelWarning

# Settings that are not read -> values with which they have no effect.
_NEUTRAL: Final[Mapping[str, Collection[object]]] = {
    "activation_sparsity_scale": (),
    "attention.causal": (True,),
    "attention.clamp_kqv": (0.0,),
    "attention.max_alibi_bias": (0.0,),
    "attention.output_scale": (0.0, 1.0),
    "attention.scale": (0.0,),
    "attention.shared_kv_layers": (0,),
    "attention.sliding_window": (0,),
    "attention.sliding_window_pattern": (0, 1),
    "attention.temperature_length": (0,),
    "attention.temperature_scale": (0.0,),
    "attn_logit_softcapping": (0.0,),
    "embedding_scale": (0.0, 1.0),
    "expert_used_count": (0,),
    "expert_shared_count": (0,),
    "final_logit_softcapping": (0.0,),
    "full_attention_interval": (0, 1),
    "leading_dense_block_count": (0,),
    "logit_scale": (0.0, 1.0),
    "nextn_predict_layers": (0,),
    "residual_scale": (0.0, 1.0),
    "rope.freq_base_swa": (),
    "router_logit_softcapping": (0.0,),
    "tensor_data_layout": ("Meta AI original pth",),
    "use_parallel_residual": (False,),
}
# Each must equal the model's width of a head, or of its rotated part.
_WIDTHS: Final = (
    "attention.value_length",
    "attention.key_length_swa",
    "attention.value_length_swa",
    "rope.dimension_count_swa",
)
# These have no effect in a decoder with RMS norms.
_SILENT: Final = frozenset(
    (
        "attention.layer_norm_epsilon",
        "decoder_start_token_id",
        "embedding_length_out",
        "mm.tokens_per_image",
        "pooling_type",
        "rope.scaling.finetuned",
        "vocab_size",
    )
)
# Settings with these beginnings affect the computation.
_ABOUT: Final = ("attention.", "rope.", "expert", "ssm.", "wkv.", "altup.", "swiglu_", "dense_")
# Settings of the rotation that are supported with one value only.
_ROTATION: Final[Mapping[str, Collection[float]]] = {
    "yarn_ext_factor": (1.0, -1.0),
    "yarn_attn_factor": (1.0,),
    "yarn_log_multiplier": (0.0,),
    "alpha": (0.0,),
}
_BETAS: Final = ("yarn_beta_fast", "yarn_beta_slow")
_KINDS: Final = ("none", "linear", "yarn", "longrope")
_FACTORS: Final = ("rope.scaling.factor", "rope.scale_linear")  # the second: the spelling of 2023


class Metadata:
    """The settings of one architecture; it records which of them were read."""

    def __init__(self, file: GGUFFile) -> None:
        self._file = file
        self._read: set[str] = set()
        kind = file.metadata.get("general.type", "model")
        if kind != "model":
            self.fail(f"general.type is {str(kind)[:40]!r}: the file does not contain a complete model")
        self.architecture: Final = self._text("general.architecture")

    def fail(self, what: str) -> NoReturn:
        """Raise a ModelError about this file."""
        raise ModelError(f"{self._file.path}: {what}")

    def has(self, key: str) -> bool:
        """Whether the file has this key of the architecture."""
        return f"{self.architecture}.{key}" in self._file.metadata

    def count(self, key: str, most: int, default: int | None = None, least: int = 1) -> int:
        """A whole number from `least` to `most`."""
        value = self._value(key, default)
        name = f"{self.architecture}.{key}"
        if not isinstance(value, int) or isinstance(value, bool):
            self.fail(f"metadata {name!r} is missing or not a whole number")
        if not least <= value <= most:
            self.fail(f"metadata {name!r} is {value}; expected {least} to {most}")
        return value

    def number(self, key: str, low: float, high: float, default: float | None = None) -> float:
        """A number within [low, high]."""
        value = self._value(key, default)
        name = f"{self.architecture}.{key}"
        if not isinstance(value, int | float) or isinstance(value, bool):
            self.fail(f"metadata {name!r} is missing or not a number")
        if not low <= value <= high:  # NaN fails, too
            self.fail(f"metadata {name!r} is {value}; expected {low:g} to {high:g}")
        return float(value)

    def scaling(self, longrope: bool) -> Scaling:
        """The scaling of the rotation. longrope: the file has that method's factors."""
        kind = self._value("rope.scaling.type", "linear")
        if not isinstance(kind, str) or kind not in _KINDS:
            self.fail(f"rotary embeddings scaled by {kind!r} are not supported")
        if longrope and kind in ("none", "linear"):
            kind = "longrope"  # files older than this name
        for name, neutral in _ROTATION.items():
            key = f"rope.scaling.{name}"
            if self.number(key, -1e9, 1e9, default=next(iter(neutral))) not in neutral:
                self.fail(
                    f"metadata '{self.architecture}.{key}' is not supported (only {next(iter(neutral)):g})"
                )
        attention_factor = self.number("rope.scaling.attn_factor", 0.0, 1e3, default=0.0)
        if kind not in ("longrope", "yarn") and attention_factor not in (0.0, 1.0):
            name = f"{self.architecture}.rope.scaling.attn_factor"
            self.fail(f"metadata {name!r} is supported for 'longrope' and 'yarn' only")
        factor = self._factor()
        # Settings of other methods have no effect.
        self._read |= {f"rope.scaling.{name}" for name in ("original_context_length", *_BETAS)}
        if kind == "none":
            return Scaling()
        if kind == "linear":
            return Scaling(kind, factor)
        stated = self.count("context_length", MAX_CONTEXT)
        original = self.count(
            "rope.scaling.original_context_length", MAX_CONTEXT, stated if kind == "yarn" else None, least=2
        )
        if kind == "longrope":
            if factor != 1.0:
                self.fail(f"metadata '{self.architecture}.{_FACTORS[0]}' is not supported for 'longrope'")
            factor = stated / original
            own = longrope_attention_factor(factor, original)
            return Scaling(kind, factor, original, attention_factor=attention_factor or own)
        return Scaling(
            kind,
            factor,
            original,
            self.number("rope.scaling.yarn_beta_fast", 1e-3, 1e6, default=32.0),
            self.number("rope.scaling.yarn_beta_slow", 1e-3, 1e6, default=1.0),
            attention_factor or 1.0,
        )

    def _factor(self) -> float:
        self._read |= set(_FACTORS)  # the first one present counts
        for key in _FACTORS:
            if self.has(key):
                return self.number(key, 0.0, 1e6) or 1.0
        return 1.0

    def refuse_unread(self, head_dim: int, rope_dim: int) -> None:
        """Raise a ModelError for an unread setting that has an effect; warn of other unknown ones."""
        unknown = []
        for name, value in self._file.metadata.items():
            prefix, _, key = name.partition(".")
            if name.startswith(("adapter.", "diffusion.", "clip.")):
                self.fail(f"metadata {name!r} is not supported")
            if prefix != self.architecture or key in self._read or key in _SILENT:
                continue
            width = rope_dim if key == "rope.dimension_count_swa" else head_dim
            if key in _WIDTHS and isinstance(value, int) and value == width:
                continue
            if key in _NEUTRAL or key.startswith(_ABOUT):
                self._refuse_changing(name, key, value, head_dim)
            else:
                unknown.append(name)
        if unknown:
            shown = ", ".join(repr(each[:60]) for each in unknown[:8]) + (", ..." if len(unknown) > 8 else "")
            text = (
                f"{self._file.path}: ignored, as {self.architecture!r} models have no such metadata: {shown}"
            )
            warnings.warn(text, ModelWarning, stacklevel=2)

    def _refuse_changing(self, name: str, key: str, value: object, head_dim: int) -> None:
        if key == "rope.dimension_sections" and not any(getattr(value, "tolist", lambda: [1])()):
            return
        usual = 1.0 / math.sqrt(head_dim)
        if key == "attention.scale" and isinstance(value, float) and math.isclose(value, usual, rel_tol=1e-6):
            return
        if not isinstance(value, bool | int | float | str) or value not in _NEUTRAL.get(key, ()):
            self.fail(
                f"metadata {name!r} ({str(value)[:40]}) is not supported for {self.architecture!r} models"
            )

    def _value(self, key: str, default: object) -> object:
        self._read.add(key)
        return self._file.metadata.get(f"{self.architecture}.{key}", default)

    def _text(self, key: str) -> str:
        value = self._file.metadata.get(key)
        if not isinstance(value, str):
            self.fail(f"metadata {key!r} is missing or not a text")
        return value

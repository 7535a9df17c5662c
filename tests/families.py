"""What tiny models of other architectures have beyond a Llama's, or instead of it.

For each: the keys and tensors of its GGUF files (llama.cpp's conventions), and the configuration and names of
the transformers model of the same weights. Norms of Gemma files hold 1 + w where the original has w.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from guessahead.types import Float32

if TYPE_CHECKING:
    from tests.tiny import TinyModel

Tensors = dict[str, Float32]
WINDOW = 80  # positions; no multiple of a page


def same(tensors: Tensors, model: TinyModel) -> Tensors:
    """A Llama's tensors as they are."""
    return tensors


@dataclass(frozen=True)
class Family:
    """arch: as the file says. keys: metadata without that prefix. original: transformers' class prefix.

    config: arguments of the transformers configuration. names: stems of tensors -> names there.
    paired: q and k rows are permuted (see tests/tiny.py). shift: what the file adds to norm weights.
    faults: changes of the configuration that must be noticed.
    """

    arch: str
    original: str
    change: Callable[[Tensors, TinyModel], Tensors] = same
    keys: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, object] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    paired: bool = False
    shift: float = 0.0
    layers: int = 2
    has_head_dim: bool = True
    faults: tuple[Mapping[str, object], ...] = ()

    def config_of(self, model: TinyModel) -> dict[str, Any]:
        """`config`, with what depends on the model in the place of None, and the base of the rotation."""
        config: dict[str, Any] = dict(self.config)
        if "query_pre_attn_scalar" in config:
            config["query_pre_attn_scalar"] = model.head_dim
        if "rope_parameters" in config:
            rotation = dict(config["rope_parameters"])
            if "partial_rotary_factor" in rotation:
                rotation["partial_rotary_factor"] = self.keys["rope.dimension_count"] / model.head_dim
            if "full_attention" in rotation:
                rotation["full_attention"] = rotation["full_attention"] | {"rope_theta": model.rope_base}
            else:
                rotation["rope_theta"] = model.rope_base
            config["rope_parameters"] = rotation
        return config


def norm(size: int, seed: int) -> Float32:
    """Weights around 1 that lose nothing when 1 is taken off."""
    values = 1 + 0.2 * np.random.default_rng([size, seed]).standard_normal(size)
    return (np.round(values * 4096) / 4096).astype(np.float32)


def qk_norms(whole: bool) -> Callable[[Tensors, TinyModel], Tensors]:
    def change(tensors: Tensors, model: TinyModel) -> Tensors:
        changed = dict(tensors)
        for layer in range(model.layers):
            q, k = (1, 1) if not whole else (model.heads, model.kv_heads)
            changed[f"blk.{layer}.attn_q_norm.weight"] = norm(q * model.head_dim, 2 * layer)
            changed[f"blk.{layer}.attn_k_norm.weight"] = norm(k * model.head_dim, 2 * layer + 1)
        return changed

    return change


def post_norms(tensors: Tensors, model: TinyModel) -> Tensors:
    changed = dict(tensors)
    for layer in range(model.layers):
        changed[f"blk.{layer}.post_attention_norm.weight"] = norm(model.width, 100 + layer)
        changed[f"blk.{layer}.post_ffw_norm.weight"] = norm(model.width, 200 + layer)
    return changed


def without(*stems: str) -> Callable[[Tensors, TinyModel], Tensors]:
    def change(tensors: Tensors, model: TinyModel) -> Tensors:
        return {name: values for name, values in tensors.items() if name.split(".")[-2] not in stems}

    return change


def exact_norms(tensors: Tensors, model: TinyModel) -> Tensors:
    """All norms as `norm` makes them; those of the output keep their size."""
    return {
        name: np.round(values * 4096).astype(np.float32) / 4096 if values.ndim == 1 else values
        for name, values in tensors.items()
    }


def fused(tensors: Tensors, model: TinyModel) -> Tensors:
    changed = without("attn_q", "attn_k", "attn_v", "ffn_gate", "ffn_up")(tensors, model)
    for layer in range(model.layers):
        block = f"blk.{layer}."
        for target, stems in (
            ("attn_qkv", ("attn_q", "attn_k", "attn_v")),
            ("ffn_up", ("ffn_gate", "ffn_up")),
        ):
            changed[f"{block}{target}.weight"] = np.concatenate(
                [tensors[f"{block}{stem}.weight"] for stem in stems]
            )
    return changed


def rope_factors(tensors: Tensors, model: TinyModel) -> Tensors:
    """Llama 3's division of the frequencies, as its converter stores it."""
    frequencies = model.rope_base ** -(np.arange(0, model.head_dim, 2) / model.head_dim)
    return tensors | {"rope_freqs.weight": (frequencies / llama3_frequencies(frequencies)).astype(np.float32)}


LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 128,
}


def llama3_frequencies(frequencies: np.ndarray, factor: float = 8.0) -> np.ndarray:
    """float64: long waves are stretched by the factor, short ones not, with a smooth step between them."""
    old, low, high = 128, 1.0, 4.0
    turns = old * frequencies / (2 * np.pi)
    smooth = np.clip((turns - low) / (high - low), 0, 1)
    return (1 - smooth) * frequencies / factor + smooth * frequencies


def chain(*changes: Callable[[Tensors, TinyModel], Tensors]) -> Callable[[Tensors, TinyModel], Tensors]:
    def change(tensors: Tensors, model: TinyModel) -> Tensors:
        for each in changes:
            tensors = each(tensors, model)
        return tensors

    return change


QK_NAMES = {"attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm"}
POST_NAMES = {
    "post_attention_norm": "post_attention_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}

GEMMA_KEYS = {"attention.sliding_window": WINDOW}
GEMMA_NAMES = POST_NAMES | {"ffn_norm": "pre_feedforward_layernorm"}

FAMILIES: dict[str, Family] = {
    "llama": Family("llama", "Llama", paired=True),
    "qwen2": Family("qwen2", "Qwen2", has_head_dim=False),
    "llama3": Family(
        "llama",
        "Llama",
        rope_factors,
        paired=True,
        config={"rope_parameters": LLAMA3},
        faults=({"rope_parameters": LLAMA3 | {"factor": 8.02, "rope_theta": 10000.0}},),
    ),
    "mistral": Family(
        "llama",
        "Mistral",
        paired=True,
        keys={"attention.sliding_window": WINDOW},
        config={"sliding_window": WINDOW},
        faults=({"sliding_window": WINDOW + 1}, {"sliding_window": WINDOW - 1}),
    ),
    "qwen3": Family("qwen3", "Qwen3", qk_norms(whole=False), names=QK_NAMES),
    "phi3": Family(
        "phi3",
        "Phi3",
        fused,
        keys={"attention.sliding_window": WINDOW},
        config={"sliding_window": WINDOW, "pad_token_id": 0},
        names={"attn_qkv": "self_attn.qkv_proj", "ffn_up": "mlp.gate_up_proj"},
        has_head_dim=False,
        faults=({"sliding_window": WINDOW + 1},),
    ),
    "phi3-partial": Family(
        "phi3",
        "Phi3",
        fused,
        keys={"rope.dimension_count": 8},
        config={
            "pad_token_id": 0,
            "rope_parameters": {"rope_type": "default", "partial_rotary_factor": None},
        },
        names={"attn_qkv": "self_attn.qkv_proj", "ffn_up": "mlp.gate_up_proj"},
        has_head_dim=False,
    ),
    "granite": Family(
        "granite",
        "Granite",
        paired=True,
        keys={
            "attention.scale": 0.3,
            "embedding_scale": 12.0,
            "residual_scale": 0.22,
            "logit_scale": 8.0,
        },
        config={
            "attention_multiplier": 0.3,
            "embedding_multiplier": 12.0,
            "residual_multiplier": 0.22,
            "logits_scaling": 8.0,
        },
        has_head_dim=False,
        faults=(
            {"attention_multiplier": 0.301},
            {"embedding_multiplier": 12.02},
            {"residual_multiplier": 0.2202},
            {"logits_scaling": 8.01},
        ),
    ),
    "olmo2": Family(
        "olmo2",
        "Olmo2",
        chain(without("attn_norm", "ffn_norm"), post_norms, qk_norms(whole=True)),
        names=QK_NAMES | POST_NAMES,
        has_head_dim=False,
    ),
    "gemma2": Family(
        "gemma2",
        "Gemma2",
        chain(exact_norms, post_norms),
        keys=GEMMA_KEYS | {"attn_logit_softcapping": 5.0, "final_logit_softcapping": 30.0},
        config={
            "sliding_window": WINDOW,
            "attn_logit_softcapping": 5.0,
            "final_logit_softcapping": 30.0,
            "query_pre_attn_scalar": None,
        },
        names=GEMMA_NAMES,
        shift=1.0,
        faults=(
            {"attn_logit_softcapping": 5.02},
            {"final_logit_softcapping": 30.02},
            {"sliding_window": WINDOW + 1},
        ),
    ),
    "gemma3": Family(
        "gemma3",
        "Gemma3",
        chain(exact_norms, post_norms, qk_norms(whole=False)),
        keys=GEMMA_KEYS | {"rope.scaling.type": "linear", "rope.scaling.factor": 8.0},
        config={
            "sliding_window": WINDOW,
            "query_pre_attn_scalar": None,
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "factor": 8.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
            },
        },
        names=GEMMA_NAMES | QK_NAMES,
        shift=1.0,
        layers=6,
        faults=({"sliding_window": WINDOW + 1},),
    ),
    "smollm3": Family(
        "smollm3",
        "SmolLM3",
        paired=True,
        config={"pad_token_id": 0},
        layers=4,
        has_head_dim=False,
        faults=({"no_rope_layers": [1, 1, 1, 1]},),
    ),
}

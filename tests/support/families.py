"""What tiny models of other architectures have beyond a Llama's, or instead of it.

For each: the keys and tensors of its GGUF files (llama.cpp's conventions), and the configuration and names of
the transformers model of the same weights. Norms of Gemma files hold 1 + w where the original has w.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.support import rotations
from tests.support.rotations import LLAMA3, LONGROPE, YARN, YARN_STEEP
from tests.support.tensor_changes import (
    Change,
    chain,
    exact_norms,
    fused,
    llama3_factors,
    longrope_factors,
    post_norms,
    qk_norms,
    same,
    without,
)

if TYPE_CHECKING:
    from tests.support.tiny import TinyModel

WINDOW = 80  # positions; no multiple of a page


@dataclass(frozen=True)
class Family:
    """arch: as the file says. keys: metadata without that prefix. original: transformers' class prefix.

    config: arguments of the transformers configuration. names: stems of tensors -> names there.
    paired: q and k rows are permuted (see tests/support/tiny.py). shift: what the file adds to norm weights.
    faults: changes of the configuration that must be noticed.
    """

    arch: str
    original: str
    change: Change = same
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
            for name in ("short_factor", "long_factor"):
                if name in rotation:
                    rotation[name] = rotations.longrope_factors(name, model.head_dim)
            if "full_attention" in rotation:
                rotation["full_attention"] = rotation["full_attention"] | {"rope_theta": model.rope_base}
            else:
                rotation["rope_theta"] = model.rope_base
            config["rope_parameters"] = rotation
        return config


QK_NAMES = {"attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm"}
POST_NAMES = {
    "post_attention_norm": "post_attention_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}

YARN_KEYS = {
    "rope.scaling.type": "yarn",
    "rope.scaling.factor": 8.0,
    "rope.scaling.original_context_length": 128,
}
PHI3_CONFIG = {"pad_token_id": 0}
PHI3_NAMES = {"attn_qkv": "self_attn.qkv_proj", "ffn_up": "mlp.gate_up_proj"}

GEMMA_KEYS = {"attention.sliding_window": WINDOW}
GEMMA_NAMES = POST_NAMES | {"ffn_norm": "pre_feedforward_layernorm"}

FAMILIES: dict[str, Family] = {
    "llama": Family("llama", "Llama", paired=True),
    "qwen2": Family("qwen2", "Qwen2", has_head_dim=False),
    "llama3": Family(
        "llama",
        "Llama",
        llama3_factors,
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
        names=PHI3_NAMES,
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
        names=PHI3_NAMES,
        has_head_dim=False,
    ),
    "yarn": Family(
        "llama",
        "Llama",
        paired=True,
        keys=YARN_KEYS,
        config={"rope_parameters": YARN},
        faults=(
            {"rope_parameters": YARN | {"factor": 8.02, "rope_theta": 10000.0}},
            {"rope_parameters": YARN | {"attention_factor": 1.209, "rope_theta": 10000.0}},
            {"rope_parameters": YARN | {"beta_slow": 3.0, "rope_theta": 10000.0}},
            {"rope_parameters": YARN | {"original_max_position_embeddings": 512, "rope_theta": 10000.0}},
        ),
    ),
    "yarn-steep": Family(
        "qwen3",
        "Qwen3",
        qk_norms(whole=False),
        names=QK_NAMES,
        keys=YARN_KEYS
        | {
            "rope.scaling.factor": 3.0,
            "rope.scaling.yarn_beta_fast": 12.0,
            "rope.scaling.yarn_beta_slow": 2.0,
        },
        config={"rope_parameters": YARN_STEEP},
    ),
    "longrope-long": Family(
        "phi3",
        "Phi3",
        chain(fused, longrope_factors),
        keys={"rope.scaling.original_context_length": 2, "rope.scaling.attn_factor": 1.25},
        config=PHI3_CONFIG | {"rope_parameters": LONGROPE, "original_max_position_embeddings": 2},
        names=PHI3_NAMES,
        has_head_dim=False,
    ),
    "longrope-short": Family(
        "phi3",
        "Phi3",
        chain(fused, longrope_factors),
        keys={
            "rope.scaling.type": "longrope",
            "rope.scaling.original_context_length": 1024,
            "rope.scaling.attn_factor": 1.25,
        },
        config=PHI3_CONFIG | {"rope_parameters": LONGROPE, "original_max_position_embeddings": 1024},
        names=PHI3_NAMES,
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

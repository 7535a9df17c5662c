"""Names of tensors: conversion from transformers' to GGUF's."""

from __future__ import annotations

from typing import Final

from guessahead.checkpoints.folders.settings import Family

_LAYER_NAMES: Final = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_NAMES: Final = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
_COMPUTED: Final = "rotary_emb.inv_freq"  # older files store this, though it follows from the configuration


def is_computed(name: str) -> bool:
    """Whether a tensor only repeats a value of the configuration."""
    return name == _COMPUTED or name.endswith("." + _COMPUTED)


def gguf_name(name: str, family: Family, num_layers: int) -> str | None:
    """The GGUF name, such as blk.0.attn_q.weight; None if it is not a tensor of the model."""
    stem, _, suffix = name.rpartition(".")
    if suffix == "weight" and stem in _NAMES:
        return f"{_NAMES[stem]}.weight"
    parts = stem.split(".", 3)
    if len(parts) < 4 or parts[:2] != ["model", "layers"] or parts[3] not in _LAYER_NAMES:
        return None
    if suffix != "weight" and not (suffix == "bias" and parts[3] in family.biases):
        return None
    index = parts[2]
    if not index.isascii() or not index.isdigit() or str(int(index)) != index or int(index) >= num_layers:
        return None
    return f"blk.{index}.{_LAYER_NAMES[parts[3]]}.{suffix}"

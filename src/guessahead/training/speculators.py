"""Export to the layout of `speculators` (EAGLE-3), which vLLM reads: bfloat16 weights and a configuration.

As vLLM reads it (llama_eagle3.py and configs/speculators there): layer number i in
`eagle_aux_hidden_state_layer_ids` means the input of layer i; `d2t` is, for each token of the head, the
difference of the target's id and its own; the residual stream is the input of `hidden_norm`
(norm_before_residual = false).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from guessahead.heads.files import whole
from guessahead.training.target import Target
from guessahead.types import Float32, Int32

NAMES: Final = {
    "fc": "fc",
    "input_layernorm": "layers.0.input_layernorm",
    "hidden_norm": "layers.0.hidden_norm",
    "q_proj": "layers.0.self_attn.q_proj",
    "k_proj": "layers.0.self_attn.k_proj",
    "v_proj": "layers.0.self_attn.v_proj",
    "o_proj": "layers.0.self_attn.o_proj",
    "post_attention_layernorm": "layers.0.post_attention_layernorm",
    "gate_proj": "layers.0.mlp.gate_proj",
    "up_proj": "layers.0.mlp.up_proj",
    "down_proj": "layers.0.mlp.down_proj",
    "norm": "norm",
    "lm_head": "lm_head",
}
"""Our name of each weight -> theirs."""


def write_speculators(
    weights: Mapping[str, Float32],
    target: Target,
    layers: tuple[int, ...],
    draft_ids: Int32,
    verifier: str,
    guesses: int,
    folder: Path,
) -> None:
    """weights: by our names. layers: whose outputs are fused. verifier: the target's name for vLLM.

    guesses: the number of tokens to guess ahead. Raises ModelError if the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tensors: dict[str, Tensor] = {
        f"{theirs}.weight": torch.from_numpy(weights[ours]).bfloat16() for ours, theirs in NAMES.items()
    }
    tensors["embed_tokens.weight"] = torch.from_numpy(target.embeddings).bfloat16()
    kept = torch.from_numpy(draft_ids.astype(np.int64))
    tensors["d2t"] = kept - torch.arange(len(kept))
    tensors["t2d"] = torch.zeros(target.config.vocab_size, dtype=torch.bool)
    tensors["t2d"][kept] = True
    with whole(folder / "model.safetensors") as unfinished:
        save_file(tensors, unfinished, {"format": "pt"})
    text = json.dumps(_config(target, layers, len(kept), verifier, guesses), indent=2)
    with whole(folder / "config.json") as unfinished:
        unfinished.write_text(text + "\n", "utf-8")


def _config(
    target: Target, layers: tuple[int, ...], vocab_size: int, verifier: str, guesses: int
) -> dict[str, object]:
    c = target.config
    return {
        "architectures": ["Eagle3Speculator"],
        "speculators_model_type": "eagle3",
        "draft_vocab_size": vocab_size,
        "eagle_aux_hidden_state_layer_ids": [layer + 1 for layer in layers],
        "norm_before_residual": False,
        "target_hidden_size": c.width,
        "torch_dtype": "bfloat16",
        "tie_word_embeddings": False,
        "speculators_config": {
            "algorithm": "eagle3",
            "default_proposal_method": "greedy",
            "proposal_methods": [
                {
                    "proposal_type": "greedy",
                    "speculative_tokens": guesses,
                    "verifier_accept_k": 1,
                    "accept_tolerance": 0.0,
                }
            ],
            "verifier": {"name_or_path": verifier, "architectures": [_ARCHITECTURES.get(c.architecture, "")]},
        },
        "transformer_layer_config": {
            "model_type": "llama",
            "architectures": ["LlamaForCausalLM"],
            "num_hidden_layers": 1,
            "hidden_size": c.width,
            "intermediate_size": c.ffn_width,
            "num_attention_heads": c.num_heads,
            "num_key_value_heads": c.num_kv_heads,
            "head_dim": c.head_dim,
            "hidden_act": "silu",
            "rms_norm_eps": c.norm_epsilon,
            "rope_theta": c.rope_base,
            "vocab_size": c.vocab_size,
            "max_position_embeddings": c.context_length,
            "attention_bias": False,
            "mlp_bias": False,
        },
    }


_ARCHITECTURES: Final = {
    "llama": "LlamaForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "phi3": "Phi3ForCausalLM",
    "granite": "GraniteForCausalLM",
    "olmo2": "Olmo2ForCausalLM",
    "smollm3": "SmolLM3ForCausalLM",
}

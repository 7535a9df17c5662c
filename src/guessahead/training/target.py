"""The target's own weights that the training of a head needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from guessahead.checkpoints.gguf.quantize import dequantize
from guessahead.checkpoints.gguf.rotation import halves_from_pairs
from guessahead.engines.native.architectures import ARCHITECTURES, SPECS
from guessahead.engines.native.checkpoint import Checkpoint, Config
from guessahead.engines.native.head_host import fingerprint
from guessahead.errors import ModelError
from guessahead.models.load import open_checkpoint
from guessahead.types import Float32


@dataclass(frozen=True, slots=True)
class Target:
    """Parts of a target, in float32.

    fingerprint: of the model, independent of the format of its weights.
    embeddings, output: float32[vocab, width]. norm: float32[width], before `output`.
    layer: weights of the last layer by their names in a head, queries and keys for rotation by halves;
        None if that layer has another structure than a head's.
    """

    config: Config
    fingerprint: str
    embeddings: Float32
    output: Float32
    norm: Float32
    layer: Mapping[str, Float32] | None

    @classmethod
    def load(cls, path: Path) -> Target:
        """Read a target. Raises ModelError if the file cannot be used, or heads do not support the model."""
        with open_checkpoint(path) as file:
            checkpoint = Checkpoint(file, tuple(ARCHITECTURES))
            config, spec = checkpoint.config, SPECS[checkpoint.architecture](checkpoint)
            if config.width % 32 or config.ffn_width % 32:
                raise ModelError(f"{path}: layers of {config.width} columns: heads need a multiple of 32")
            if spec.logit_cap or spec.embedding_scale != 1.0:
                raise ModelError(
                    f"{path}: no heads for {config.architecture!r} models, which transform their logits"
                )

            plain = not (spec.fused or spec.qk_norm or spec.post_norms or spec.gelu)
            layer = _last_layer(checkpoint, spec.paired_rope) if plain else None
            embeddings = _matrix(checkpoint, "token_embd.weight", config.vocab_size, config.width)
            output = embeddings
            if checkpoint.has("output.weight"):
                output = _matrix(checkpoint, "output.weight", config.vocab_size, config.width)
            norm = checkpoint.vector("output_norm.weight", config.width)
        name = fingerprint(config.architecture, config.num_layers, config.vocab_size, norm)
        return cls(config, name, embeddings, output, norm, layer)


def _last_layer(checkpoint: Checkpoint, paired_rope: bool) -> Mapping[str, Float32]:
    c, name = checkpoint.config, f"blk.{checkpoint.config.num_layers - 1}."
    matrices = {
        "q_proj": ("attn_q", c.q_width, c.width),
        "k_proj": ("attn_k", c.kv_width, c.width),
        "v_proj": ("attn_v", c.kv_width, c.width),
        "o_proj": ("attn_output", c.width, c.q_width),
        "gate_proj": ("ffn_gate", c.ffn_width, c.width),
        "up_proj": ("ffn_up", c.ffn_width, c.width),
        "down_proj": ("ffn_down", c.width, c.ffn_width),
    }
    layer = {
        ours: _matrix(checkpoint, f"{name}{theirs}.weight", *shape)
        for ours, (theirs, *shape) in matrices.items()
    }
    if paired_rope:
        layer["q_proj"] = layer["q_proj"][halves_from_pairs(c.num_heads, c.head_dim)]
        layer["k_proj"] = layer["k_proj"][halves_from_pairs(c.num_kv_heads, c.head_dim)]
    layer["hidden_norm"] = checkpoint.vector(f"{name}attn_norm.weight", c.width)
    layer["post_attention_layernorm"] = checkpoint.vector(f"{name}ffn_norm.weight", c.width)
    return layer


def _matrix(checkpoint: Checkpoint, name: str, num_rows: int, num_columns: int) -> Float32:
    tensor = checkpoint.matrix(name, num_rows, num_columns)
    data = np.frombuffer(tensor.data, np.uint8)
    return dequantize(data, tensor.type).reshape(num_rows, num_columns)

"""The numbers and tensors of a checkpoint, read from a GGUF file and checked before anything is built."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from guessahead.errors import ModelError
from guessahead.models.gguf import GGUFFile, TensorInfo
from guessahead.models.gguf.rotation import Scaling, longrope_attention_factor
from guessahead.types import Float32

MAX_CONTEXT = 1 << 20
# RunSettings of the rotation that are known in one value only, which changes nothing.
_NEUTRAL = {"yarn_ext_factor": 1.0, "yarn_attn_factor": 1.0, "yarn_log_multiplier": 0.0, "alpha": 0.0}
_RECURRENT = (
    "mamba",
    "rwkv",
    "jamba",
    "falcon-h1",
    "nemotron_h",
    "granitehybrid",
    "lfm2",
    "plamo2",
    "qwen3next",
)


def _refusal(architecture: str, supported: tuple[str, ...]) -> str:
    if architecture.startswith(_RECURRENT):
        return f"{architecture!r} models are recurrent; only transformers are supported"
    if "moe" in architecture or architecture in ("deepseek2", "dbrx", "grok", "gpt-oss", "arctic"):
        return f"{architecture!r} models are mixtures of experts, which are not supported"
    return f"architecture {architecture!r} is not supported (only {', '.join(supported)})"


@dataclass(frozen=True, slots=True)
class Config:
    """Sizes of a decoder-only transformer (counts, unless said otherwise)."""

    architecture: str
    num_layers: int
    width: int
    ffn_width: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    context_length: int
    norm_epsilon: float
    rope_base: float
    rope_dim: int  # rotated elements of each head, the first ones
    rope_scaling: Scaling
    sliding_window: int  # positions that a row sees where attention is local, itself included; 0 = all

    @property
    def q_width(self) -> int:
        """Columns of all query heads together."""
        return self.num_heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """Columns of all key heads (or all value heads) together."""
        return self.num_kv_heads * self.head_dim


class Checkpoint:
    """A GGUF file as the architectures see it. Every problem is a ModelError that names the file.

    context: most positions of the sequences that will run; the model's own until another one is set.
    """

    def __init__(self, file: GGUFFile, supported: tuple[str, ...]) -> None:
        self._file = file
        self.architecture = self._text("general.architecture")
        if self.architecture not in supported:
            self.fail(_refusal(self.architecture, supported))
        if self.metadata_count("expert_count", 1 << 16, default=0):
            self.fail("mixture-of-experts models are not supported")
        self._used: set[str] = set()
        self.config = config = self._read_config()
        # Before anything is allocated by these sizes: matrices that every model has.
        self.matrix("blk.0.attn_output.weight", config.width, config.q_width)
        self.matrix("blk.0.ffn_down.weight", config.width, config.ffn_width)
        self.context = self.config.context_length

    def fail(self, what: str) -> ModelError:
        """Raise a ModelError about this file."""
        raise ModelError(f"{self._file.path}: {what}")

    @property
    def tensors(self) -> tuple[TensorInfo, ...]:
        """All tensors of the file."""
        return tuple(self._file.tensors.values())

    def has(self, name: str) -> bool:
        """Whether the file holds this tensor."""
        return name in self._file.tensors

    def matrix(self, name: str, num_rows: int, num_columns: int) -> TensorInfo:
        """A weight of num_rows outputs by num_columns inputs."""
        return self._tensor(name, (num_rows, num_columns))

    def vector(self, name: str, size: int) -> Float32:
        """float32[size], from a tensor that is stored as F32."""
        tensor = self._tensor(name, (size,))
        if tensor.type.name != "F32":
            self.fail(f"tensor {name!r} is {tensor.type.name}; vectors must be F32")
        return np.frombuffer(tensor.data, np.float32).copy()

    def refuse_unused(self) -> None:
        """Raise a ModelError if a tensor was never asked for: the model would not be what the file says."""
        for name in self._file.tensors:
            if name not in self._used:
                self.fail(f"tensor {name!r} is not part of what is supported of {self.architecture!r} models")

    def metadata_count(self, key: str, most: int, default: int) -> int:
        """A whole number from 0 to `most` that the architecture's keys may hold."""
        value = self._file.metadata.get(f"{self.architecture}.{key}", default)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
            raise self.fail(f"metadata {self.architecture}.{key!r} is {value}; expected 0 to {most}")
        return value

    def metadata_number(self, key: str, low: float, high: float, default: float) -> float:
        """A number within [low, high] that the architecture's keys may hold."""
        return self._number(f"{self.architecture}.{key}", low, high, default=default)

    def _tensor(self, name: str, shape: tuple[int, ...]) -> TensorInfo:
        tensor = self._file.tensors.get(name)
        if tensor is None:
            raise self.fail(f"tensor {name!r} is missing")
        self._used.add(name)
        if tuple(tensor.shape) != shape:
            self.fail(f"tensor {name!r} has shape {tuple(tensor.shape)}, expected {shape}")
        return tensor

    def _read_config(self) -> Config:
        prefix = self.architecture
        num_heads = self._count(f"{prefix}.attention.head_count", 1 << 12)
        width = self._count(f"{prefix}.embedding_length", 1 << 20)
        if f"{prefix}.attention.key_length" in self._file.metadata:
            head_dim = self._count(f"{prefix}.attention.key_length", 1 << 12)
        elif width % num_heads == 0:
            head_dim = width // num_heads
        else:
            raise self.fail(f"{num_heads} heads do not divide an embedding of {width}")
        if head_dim % 8 != 0:
            self.fail(f"a head of {head_dim} elements is not supported (a multiple of 8 is needed)")
        kv_key = f"{prefix}.attention.head_count_kv"
        num_kv_heads = self._count(kv_key, num_heads) if kv_key in self._file.metadata else num_heads
        if num_heads % num_kv_heads != 0 or num_heads // num_kv_heads > 64:
            self.fail(f"{num_heads} heads cannot share {num_kv_heads} key-value heads")
        rope_dim = self.metadata_count("rope.dimension_count", head_dim, default=head_dim)
        if rope_dim < 2 or rope_dim % 2 != 0:
            self.fail(f"{rope_dim} rotated elements of a head are not supported (an even number is needed)")
        embedding = self._file.tensors.get("token_embd.weight")
        if embedding is None or len(embedding.shape) != 2:
            raise self.fail("tensor 'token_embd.weight' is missing or not a matrix")
        return Config(
            architecture=self.architecture,
            num_layers=self._count(f"{prefix}.block_count", 1 << 12),
            width=width,
            ffn_width=self._count(f"{prefix}.feed_forward_length", 1 << 22),
            num_heads=num_heads,
            num_kv_heads=num_kv_heads,
            head_dim=head_dim,
            vocab_size=int(embedding.shape[0]),
            context_length=self._count(f"{prefix}.context_length", MAX_CONTEXT),
            norm_epsilon=self._number(f"{prefix}.attention.layer_norm_rms_epsilon", 0.0, 1.0),
            rope_base=self._number(f"{prefix}.rope.freq_base", 2.0, 1e12, default=10000.0),
            rope_dim=rope_dim,
            rope_scaling=self._rope_scaling(prefix),
            sliding_window=self.metadata_count("attention.sliding_window", MAX_CONTEXT, default=0),
        )

    def _rope_scaling(self, prefix: str) -> Scaling:
        kind = self._file.metadata.get(f"{prefix}.rope.scaling.type", "none")
        if not isinstance(kind, str) or kind not in ("none", "linear", "yarn", "longrope"):
            raise self.fail(f"rotary embeddings scaled by {kind!r} are not supported")
        if kind == "none" and self.has("rope_factors_long.weight"):
            kind = "longrope"  # files that are older than its name
        prefix += ".rope.scaling."
        for name, neutral in _NEUTRAL.items():
            if self._number(prefix + name, -1e9, 1e9, default=neutral) != neutral:
                self.fail(f"metadata {prefix + name!r} is not supported (only {neutral:g})")
        attention_factor = self._number(prefix + "attn_factor", 0.0, 1e3, default=0.0)
        if kind != "longrope" and attention_factor not in (0.0, 1.0):
            self.fail(f"metadata {prefix + 'attn_factor'!r} is supported for 'longrope' only")
        if kind == "none":
            return Scaling()
        if kind == "linear":
            return Scaling(kind, self._number(prefix + "factor", 1e-3, 1e6, default=1.0))
        original = self._count(prefix + "original_context_length", MAX_CONTEXT)
        if original < 2:
            self.fail(f"metadata {prefix + 'original_context_length'!r} is {original}; expected at least 2")
        if kind == "longrope":
            factor = self._count(f"{self.architecture}.context_length", MAX_CONTEXT) / original
            return Scaling(
                kind,
                factor,
                original,
                attention_factor=attention_factor or longrope_attention_factor(factor, original),
            )
        return Scaling(
            kind,
            self._number(prefix + "factor", 1e-3, 1e6),
            original,
            self._number(prefix + "yarn_beta_fast", 1e-3, 1e6, default=32.0),
            self._number(prefix + "yarn_beta_slow", 1e-3, 1e6, default=1.0),
        )

    def _text(self, key: str) -> str:
        value = self._file.metadata.get(key)
        if not isinstance(value, str):
            raise self.fail(f"metadata {key!r} is missing or not a text")
        return value

    def _count(self, key: str, most: int) -> int:
        value = self._file.metadata.get(key)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.fail(f"metadata {key!r} is missing or not a whole number")
        if not 1 <= value <= most:
            self.fail(f"metadata {key!r} is {value}; expected 1 to {most}")
        return value

    def _number(self, key: str, low: float, high: float, default: float | None = None) -> float:
        value = self._file.metadata.get(key, default)
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise self.fail(f"metadata {key!r} is missing or not a number")
        if not low <= value <= high:  # NaN fails, too
            self.fail(f"metadata {key!r} is {value}; expected {low:g} to {high:g}")
        return float(value)

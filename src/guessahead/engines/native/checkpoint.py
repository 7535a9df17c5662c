"""The numbers and tensors of a checkpoint, read from a GGUF file and checked before anything is built."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from guessahead.checkpoints.gguf import GGMLType, GGUFFile, TensorInfo, dequantize
from guessahead.checkpoints.gguf.rotation import MAX_CONTEXT, Scaling
from guessahead.engines.native.metadata import Metadata
from guessahead.errors import ModelError
from guessahead.types import Float32

_VECTOR_TYPES = (GGMLType.F32, GGMLType.F16, GGMLType.BF16)
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
    """Sizes of a decoder-only transformer (counts, unless stated otherwise)."""

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
    sliding_window: int  # positions that local attention covers, the row's included; 0 = all

    @property
    def q_width(self) -> int:
        """Columns of all query heads together."""
        return self.num_heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """Columns of all key heads (or all value heads) together."""
        return self.num_kv_heads * self.head_dim


class Checkpoint:
    """A GGUF file as the architectures read it. Every problem is a ModelError with the file's path.

    context: maximum positions of a sequence; the model's own until another one is set.
    """

    def __init__(self, file: GGUFFile, supported: tuple[str, ...]) -> None:
        self._file = file
        self._metadata = Metadata(file)
        self.architecture = self._metadata.architecture
        if self.architecture not in supported:
            self.fail(_refusal(self.architecture, supported))
        if self.metadata_count("expert_count", 1 << 16, default=0):
            self.fail("mixture-of-experts models are not supported")
        self._used: set[str] = set()
        self.config = config = self._read_config()
        # Check these sizes with matrices that every model has, before allocating by them.
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
        """Whether the file contains this tensor."""
        return name in self._file.tensors

    def matrix(self, name: str, num_rows: int, num_columns: int) -> TensorInfo:
        """A weight of num_rows outputs by num_columns inputs."""
        return self._tensor(name, (num_rows, num_columns))

    def vector(self, name: str, size: int) -> Float32:
        """float32[size], from a tensor that is stored as F32, F16 or BF16."""
        tensor = self._tensor(name, (size,))
        if tensor.type not in _VECTOR_TYPES:
            self.fail(f"tensor {name!r} is {tensor.type.name}; vectors must be F32, F16 or BF16")
        return np.array(dequantize(tensor.data, tensor.type), np.float32)

    def refuse_unused(self) -> None:
        """Raise a ModelError if a tensor or a setting was not used: the model would be a different one."""
        for name in self._file.tensors:
            if name not in self._used:
                self.fail(f"tensor {name!r} is not supported for {self.architecture!r} models")
        self._metadata.refuse_unread(self.config.head_dim, self.config.rope_dim)

    def metadata_count(self, key: str, most: int, default: int) -> int:
        """A whole number from 0 to `most`, an optional key of the architecture."""
        return self._metadata.count(key, most, default, least=0)

    def metadata_number(self, key: str, low: float, high: float, default: float) -> float:
        """A number within [low, high], an optional key of the architecture."""
        return self._metadata.number(key, low, high, default)

    def _tensor(self, name: str, shape: tuple[int, ...]) -> TensorInfo:
        tensor = self._file.tensors.get(name)
        if tensor is None:
            raise self.fail(f"tensor {name!r} is missing")
        self._used.add(name)
        if tuple(tensor.shape) != shape:
            self.fail(f"tensor {name!r} has shape {tuple(tensor.shape)}, expected {shape}")
        return tensor

    def _read_config(self) -> Config:
        found = self._metadata
        num_heads = found.count("attention.head_count", 1 << 12)
        width = found.count("embedding_length", 1 << 20)
        if found.has("attention.key_length"):
            head_dim = found.count("attention.key_length", 1 << 12)
        elif width % num_heads == 0:
            head_dim = width // num_heads
        else:
            raise self.fail(f"{num_heads} heads do not divide an embedding of {width}")
        if head_dim % 8 != 0:
            self.fail(f"a head of {head_dim} elements is not supported (a multiple of 8 is needed)")
        num_kv_heads = found.count("attention.head_count_kv", num_heads, default=num_heads)
        if num_heads % num_kv_heads != 0 or num_heads // num_kv_heads > 64:
            self.fail(f"{num_heads} heads cannot share {num_kv_heads} key-value heads")
        rope_dim = self.metadata_count("rope.dimension_count", head_dim, default=head_dim)
        if rope_dim < 2 or rope_dim % 2 != 0:
            self.fail(f"{rope_dim} rotated elements of a head are not supported (an even number is needed)")
        embedding = self._file.tensors.get("token_embd.weight")
        if embedding is None or len(embedding.shape) != 2:
            raise self.fail("tensor 'token_embd.weight' is missing or not a matrix")
        scaling = found.scaling(self.has("rope_factors_long.weight"))
        context_length = found.count("context_length", MAX_CONTEXT)
        if scaling.kind == "yarn":  # the file may contain the length before stretching
            stretched = min(int(scaling.original * scaling.factor), MAX_CONTEXT)
            context_length = max(context_length, stretched)
        return Config(
            architecture=self.architecture,
            num_layers=found.count("block_count", 1 << 12),
            width=width,
            ffn_width=found.count("feed_forward_length", 1 << 22),
            num_heads=num_heads,
            num_kv_heads=num_kv_heads,
            head_dim=head_dim,
            vocab_size=int(embedding.shape[0]),
            context_length=context_length,
            norm_epsilon=found.number("attention.layer_norm_rms_epsilon", 0.0, 1.0),
            rope_base=found.number("rope.freq_base", 2.0, 1e12, default=10000.0),
            rope_dim=rope_dim,
            rope_scaling=scaling,
            sliding_window=self.metadata_count("attention.sliding_window", MAX_CONTEXT, default=0),
        )

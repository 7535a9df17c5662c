"""The numbers and tensors of a checkpoint, read from a GGUF file and checked before anything is built."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from guessahead.errors import ModelError
from guessahead.gguf import GGUFFile, TensorInfo
from guessahead.types import Float32

MAX_CONTEXT = 1 << 20


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


class Checkpoint:
    """A GGUF file as the architectures see it. Every problem is a ModelError that names the file."""

    def __init__(self, file: GGUFFile, supported: tuple[str, ...]) -> None:
        self._file = file
        self.architecture = self._text("general.architecture")
        if self.architecture not in supported:
            self.fail(f"architecture {self.architecture!r} is not supported (only {', '.join(supported)})")
        self.config = self._read_config()

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

    def _tensor(self, name: str, shape: tuple[int, ...]) -> TensorInfo:
        tensor = self._file.tensors.get(name)
        if tensor is None:
            raise self.fail(f"tensor {name!r} is missing")
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
        rope_key = f"{prefix}.rope.dimension_count"
        if rope_key in self._file.metadata and self._count(rope_key, head_dim) != head_dim:
            self.fail("rotating a part of each head is not supported")
        self._refuse_rope_scaling(prefix)
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
            rope_base=self._number(f"{prefix}.rope.freq_base", 1.0, 1e12, default=10000.0),
        )

    def _refuse_rope_scaling(self, prefix: str) -> None:
        kind = self._file.metadata.get(f"{prefix}.rope.scaling.type", "none")
        factor = self._file.metadata.get(f"{prefix}.rope.scaling.factor", 1.0)
        if kind != "none" or factor != 1.0 or self.has("rope_freqs.weight"):
            self.fail(f"scaled rotary embeddings ({kind!r}) are not supported")

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

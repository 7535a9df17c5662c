"""Each architecture as a page of Python: it describes one pass over a `PlanBuilder`.

Buffers are named by small integers. All rows of a pass go through every operation together.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, localcontext

import numpy as np

from guessahead import _native
from guessahead.engines.native.checkpoint import Checkpoint, Config
from guessahead.gguf import TensorInfo
from guessahead.types import Int32

MATRIX_TYPES = frozenset(_native.FORMATS)


@dataclass(frozen=True, slots=True)
class Built:
    """A plan ready to run. bytes_per_pass: weight bytes that every pass with a choice reads."""

    plan: _native.Plan
    bytes_per_pass: int


@dataclass(frozen=True, slots=True)
class Settings:
    """How a model is to be run, whatever its architecture.

    max_rows: most rows of a pass. context: most positions of a sequence. int8: quantised weights meet int8
    activations. half_cache: keys and values are kept as f16. isa: instruction set, "" = the best.
    """

    pool: _native.Pool
    max_rows: int
    context: int
    int8: bool
    half_cache: bool
    isa: str


class Weights:
    """Loads weights of a checkpoint into native memory and counts what a pass reads of them.

    Load them in the order in which a pass reads them: they lie in memory in that order.
    """

    def __init__(self, checkpoint: Checkpoint, pool: _native.Pool) -> None:
        self._checkpoint, self._pool = checkpoint, pool
        matrices = [tensor for tensor in checkpoint.tensors if len(tensor.shape) == 2]
        known = [tensor for tensor in matrices if tensor.type.name in MATRIX_TYPES]
        num_bytes = sum(_native.packed_bytes(t.type.name, *t.shape) for t in known)
        self._arena = _native.Arena(num_bytes, pool.size)  # address space: what no worker needs costs nothing
        self.num_bytes = 0

    def matrix(
        self, name: str, num_rows: int, num_columns: int, order: Int32 | None = None, *, streamed: bool = True
    ) -> _native.Matrix:
        """order: which file row becomes output i. streamed: a pass reads all of it."""
        tensor = self._checkpoint.matrix(name, num_rows, num_columns)
        matrix = self._pack(tensor, name, num_rows, num_columns, order)
        if streamed:
            self.num_bytes += matrix.num_bytes
        return matrix

    def _pack(
        self, tensor: TensorInfo, name: str, num_rows: int, num_columns: int, order: Int32 | None
    ) -> _native.Matrix:
        if tensor.type.name not in MATRIX_TYPES:
            known = ", ".join(_native.FORMATS)
            self._checkpoint.fail(f"tensor {name!r} is {tensor.type.name}; supported are {known}")
        data = np.frombuffer(tensor.data, np.uint8)
        return _native.Matrix.pack(
            self._pool, tensor.type.name, num_rows, num_columns, data, order, self._arena
        )


def rotation_frequencies(head_dim: int, base: float) -> list[float]:
    """base^(-2i/head_dim), i < head_dim/2, correctly rounded: a power function of a C library is not."""
    with localcontext() as context:
        context.prec = 40
        log = Decimal(base).ln()
        return [float((-2 * i * log / head_dim).exp()) for i in range(head_dim // 2)]


def halves_from_pairs(num_heads: int, head_dim: int) -> Int32:
    """Row order that turns rotation of neighbours (2i, 2i + 1) into rotation of (i, i + head_dim/2).

    GGUF files of the llama architecture keep q and k for the former; the kernels know the latter only.
    """
    within = np.arange(head_dim).reshape(head_dim // 2, 2).T.reshape(-1)
    return (np.arange(num_heads)[:, None] * head_dim + within).reshape(-1).astype(np.int32)


@dataclass(frozen=True, slots=True)
class _Layer:
    """The matrices of one layer, in the order in which a pass reads them."""

    query: _native.Matrix
    key: _native.Matrix
    value: _native.Matrix
    output: _native.Matrix
    gate: _native.Matrix
    up: _native.Matrix
    down: _native.Matrix

    @classmethod
    def load(
        cls, weights: Weights, c: Config, name: str, q_order: Int32 | None, k_order: Int32 | None
    ) -> _Layer:
        q_width, kv_width = c.num_heads * c.head_dim, c.num_kv_heads * c.head_dim
        return cls(
            query=weights.matrix(name + "attn_q.weight", q_width, c.width, q_order),
            key=weights.matrix(name + "attn_k.weight", kv_width, c.width, k_order),
            value=weights.matrix(name + "attn_v.weight", kv_width, c.width),
            output=weights.matrix(name + "attn_output.weight", c.width, q_width),
            gate=weights.matrix(name + "ffn_gate.weight", c.ffn_width, c.width),
            up=weights.matrix(name + "ffn_up.weight", c.ffn_width, c.width),
            down=weights.matrix(name + "ffn_down.weight", c.width, c.ffn_width),
        )


def build_llama_like(
    checkpoint: Checkpoint, settings: Settings, *, paired_rope: bool, qkv_bias: bool
) -> Built:
    """Pre-norm transformer with rotary, grouped-query attention and a SiLU-gated feed-forward network."""
    c, int8 = checkpoint.config, settings.int8
    kv_width, q_width = c.num_kv_heads * c.head_dim, c.num_heads * c.head_dim
    weights = Weights(checkpoint, settings.pool)
    plan = _native.Plan(
        layers=c.num_layers,
        kv_heads=c.num_kv_heads,
        head_dim=c.head_dim,
        max_rows=settings.max_rows,
        context=settings.context,
        pool=settings.pool,
        isa=settings.isa,
        half_cache=settings.half_cache,
    )
    hidden = plan.buffer(c.width)
    normed = plan.buffer(c.width, quantised=int8)
    q, k, v = plan.buffer(q_width), plan.buffer(kv_width), plan.buffer(kv_width)
    attended = plan.buffer(q_width, quantised=int8)
    gate, up = plan.buffer(c.ffn_width), plan.buffer(c.ffn_width)
    gated = plan.buffer(c.ffn_width, quantised=int8)
    last = plan.buffer(c.width, quantised=int8, compact=True)
    logits = plan.buffer(c.vocab_size, compact=True)

    frequencies = rotation_frequencies(c.head_dim, c.rope_base)
    q_order = halves_from_pairs(c.num_heads, c.head_dim) if paired_rope else None
    k_order = halves_from_pairs(c.num_kv_heads, c.head_dim) if paired_rope else None

    def norm(source: int, name: str, target: int) -> None:
        plan.rmsnorm(source, plan.vector(checkpoint.vector(name, c.width)), c.norm_epsilon, target)

    def bias(name: str, size: int) -> int:
        return plan.vector(checkpoint.vector(name, size)) if qkv_bias else -1

    layers = [_Layer.load(weights, c, f"blk.{i}.", q_order, k_order) for i in range(c.num_layers)]
    tied = not checkpoint.has("output.weight")
    head = weights.matrix("token_embd.weight" if tied else "output.weight", c.vocab_size, c.width)
    table = head if tied else weights.matrix("token_embd.weight", c.vocab_size, c.width, streamed=False)

    plan.embed(table, hidden)
    for i, layer in enumerate(layers):
        name = f"blk.{i}."
        norm(hidden, name + "attn_norm.weight", normed)
        products = [
            (layer.query, q, bias(name + "attn_q.bias", q_width), False),
            (layer.key, k, bias(name + "attn_k.bias", kv_width), False),
            (layer.value, v, bias(name + "attn_v.bias", kv_width), False),
        ]
        plan.matmul(normed, products)
        plan.attention(i, q, k, v, attended, c.num_heads, frequencies, 1.0 / math.sqrt(c.head_dim))
        plan.matmul(attended, [(layer.output, hidden, -1, True)])
        norm(hidden, name + "ffn_norm.weight", normed)
        plan.gated(normed, layer.gate, layer.up, gate, up, gated)
        plan.matmul(gated, [(layer.down, hidden, -1, True)])
        plan.tap(hidden)
    norm(hidden, "output_norm.weight", last)
    plan.matmul(last, [(head, logits, -1, False)])
    plan.logits(logits)
    return Built(plan, weights.num_bytes)


def build_llama(checkpoint: Checkpoint, settings: Settings) -> Built:
    """Llama 2 and its kin (SmolLM2, TinyLlama, ...)."""
    return build_llama_like(checkpoint, settings, paired_rope=True, qkv_bias=False)


def build_qwen2(checkpoint: Checkpoint, settings: Settings) -> Built:
    """Qwen 2 and 2.5: biases on q, k and v."""
    return build_llama_like(checkpoint, settings, paired_rope=False, qkv_bias=True)


ARCHITECTURES: dict[str, Callable[[Checkpoint, Settings], Built]] = {
    "llama": build_llama,
    "qwen2": build_qwen2,
}

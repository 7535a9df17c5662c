"""The builder of decoder-only transformers: it describes one pass as a native plan.

Buffers are named by small integers. All rows of a pass go through every operation together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import guessahead._native as _native
from guessahead.checkpoints.gguf.rotation import Rotation, halves_from_pairs
from guessahead.engines.native.checkpoint import Checkpoint
from guessahead.engines.native.weights import LayerWeights, Weights
from guessahead.types import Float32


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A plan ready to run.

    bytes_per_pass: weight bytes that every pass with a choice reads. embeddings: the table of the tokens.
    last_norm: float32[width], before the logits.
    """

    plan: _native.Plan
    bytes_per_pass: int
    embeddings: _native.Matrix
    last_norm: Float32


@dataclass(frozen=True, slots=True)
class RunSettings:
    """The settings of a model, independent of its architecture.

    max_rows: maximum rows of a pass. context: maximum positions of a sequence. int8: quantised weights are
    multiplied with int8 activations. half_cache: keys and values are stored as f16. isa: instruction set, ""
    = the best.
    """

    pool: _native.Pool
    max_rows: int
    context: int
    int8: bool
    half_cache: bool
    isa: str


@dataclass(frozen=True, slots=True)
class Attention:
    """The attention of one layer. rotation: without frequencies, the layer has no positions.

    window: number of positions that a row attends to, itself included; 0 = all.
    """

    rotation: Rotation
    window: int = 0


@dataclass(frozen=True, slots=True)
class ArchitectureSpec:
    """The properties of one architecture. layers: one entry each.

    paired_rope: in the file's q and k, neighbours (2i, 2i + 1) are rotated as pairs.
    qkv_bias: biases of q, k and v are required (else optional).
    qk_norm: "" = none, "head" = each head of q and k is normalised, "whole" = all heads of a row together.
    pre_norms, post_norms: the input, the output of attention and feed-forward network is normalised.
    fused: q, k, v lie in one tensor, gate and up in another. gelu: GELU (by tanh) gates instead of SiLU.
    attention_scale: of the scores. attention_cap, logit_cap: x becomes cap * tanh(x / cap); 0 = as it is.
    """

    layers: list[Attention]
    attention_scale: float
    paired_rope: bool = False
    qkv_bias: bool = False
    qk_norm: str = ""
    pre_norms: bool = True
    post_norms: bool = False
    fused: bool = False
    gelu: bool = False
    embedding_scale: float = 1.0
    residual_scale: float = 1.0
    logit_divisor: float = 1.0
    attention_cap: float = 0.0
    logit_cap: float = 0.0


class Builder:
    """Describes the pass of one model: call `build`."""

    def __init__(self, checkpoint: Checkpoint, settings: RunSettings, spec: ArchitectureSpec) -> None:
        self._checkpoint, self._design = checkpoint, spec
        c = self._config = checkpoint.config
        self._weights = Weights(checkpoint, settings.pool)
        plan = self._plan = _native.Plan(
            layers=c.num_layers,
            kv_heads=c.num_kv_heads,
            head_dim=c.head_dim,
            max_rows=settings.max_rows,
            context=settings.context,
            pool=settings.pool,
            isa=settings.isa,
            half_cache=settings.half_cache,
        )
        int8 = settings.int8
        self._hidden = plan.buffer(c.width)
        self._normed = plan.buffer(c.width, quantised=int8)
        self._q, self._k, self._v = (plan.buffer(width) for width in (c.q_width, c.kv_width, c.kv_width))
        self._attended = plan.buffer(c.q_width, quantised=int8)
        self._gate, self._up = plan.buffer(c.ffn_width), plan.buffer(c.ffn_width)
        self._gated = plan.buffer(c.ffn_width, quantised=int8)
        self._last = plan.buffer(c.width, quantised=int8, compact=True)
        self._logits = plan.buffer(c.vocab_size, compact=True)
        # A branch that is changed before it joins the residual stream needs its own buffer.
        changed = spec.post_norms or spec.residual_scale != 1.0
        self._branch = plan.buffer(c.width) if changed else None

    def build(self) -> LoadedModel:
        c, plan, spec = self._config, self._plan, self._design
        layers = [self._load_layer(f"blk.{i}.") for i in range(c.num_layers)]
        tied = not self._checkpoint.has("output.weight")
        name = "token_embd.weight" if tied else "output.weight"
        head = self._weights.matrix(name, c.vocab_size, c.width)
        table = head
        if not tied:
            table = self._weights.matrix("token_embd.weight", c.vocab_size, c.width, streamed=False)
        plan.embed(table, self._hidden, spec.embedding_scale)
        for i, layer in enumerate(layers):
            self._attend(i, layer)
            self._feed_forward(f"blk.{i}.", layer)
            plan.tap(self._hidden)
        last_norm = self._checkpoint.vector("output_norm.weight", c.width)
        plan.rmsnorm(self._hidden, plan.vector(last_norm), c.norm_epsilon, self._last)
        plan.matmul(self._last, [_native.Product(head, self._logits)])
        if spec.logit_divisor != 1.0 or spec.logit_cap != 0.0:
            plan.cap(self._logits, spec.logit_divisor, spec.logit_cap)
        plan.logits(self._logits)
        self._checkpoint.refuse_unused()
        return LoadedModel(plan, self._weights.num_bytes, table, last_norm)

    def _load_layer(self, name: str) -> LayerWeights:
        c = self._config
        if self._design.fused:
            return LayerWeights.load_fused(self._weights, c, name)
        if not self._design.paired_rope:
            return LayerWeights.load(self._weights, c, name)
        q_order, k_order = (halves_from_pairs(heads, c.head_dim) for heads in (c.num_heads, c.num_kv_heads))
        return LayerWeights.load(self._weights, c, name, q_order, k_order)

    def _attend(self, index: int, layer: LayerWeights) -> None:
        plan, spec, name, c = self._plan, self._design, f"blk.{index}.", self._config
        self._enter(name + "attn_norm.weight")
        q_bias = self._bias(name + "attn_q.bias", c.num_heads)
        k_bias = self._bias(name + "attn_k.bias", c.num_kv_heads)
        v_bias = self._bias(name + "attn_v.bias", c.num_kv_heads, rotated=False)
        products = [
            _native.Product(layer.query, self._q, bias=q_bias),
            _native.Product(layer.key, self._k, bias=k_bias),
            _native.Product(layer.value, self._v, bias=v_bias),
        ]
        plan.matmul(self._normed, products)
        if spec.qk_norm:
            for buffer, width, letter in ((self._q, c.q_width, "q"), (self._k, c.kv_width, "k")):
                size = c.head_dim if spec.qk_norm == "head" else width
                weight = self._vector(f"{name}attn_{letter}_norm.weight", size)
                plan.norm_groups(buffer, weight, c.norm_epsilon, size)
        attention = spec.layers[index]
        plan.attention(
            index,
            self._q,
            self._k,
            self._v,
            self._attended,
            c.num_heads,
            attention.rotation.frequencies,
            spec.attention_scale * attention.rotation.gain,
            attention.window,
            spec.attention_cap,
        )
        self._join(self._attended, layer.output, name + "post_attention_norm.weight")

    def _feed_forward(self, name: str, layer: LayerWeights) -> None:
        self._enter(name + "ffn_norm.weight")
        self._plan.gated(
            self._normed, layer.gate, layer.up, self._gate, self._up, self._gated, self._design.gelu
        )
        self._join(self._gated, layer.down, name + "post_ffw_norm.weight")

    def _enter(self, norm: str) -> None:
        """Lead from the residual stream into a branch."""
        if not self._design.pre_norms:
            self._plan.copy(self._hidden, self._normed)
            return
        weight = self._vector(norm, self._config.width)
        self._plan.rmsnorm(self._hidden, weight, self._config.norm_epsilon, self._normed)

    def _join(self, source: int, matrix: _native.Matrix, norm: str) -> None:
        """Lead from the end of a branch back into the residual stream."""
        if self._branch is None:
            self._plan.matmul(source, [_native.Product(matrix, self._hidden, add=True)])
            return
        self._plan.matmul(source, [_native.Product(matrix, self._branch)])
        weight = self._vector(norm, self._config.width) if self._design.post_norms else -1
        self._plan.add_scaled(
            self._branch, self._hidden, self._design.residual_scale, weight, self._config.norm_epsilon
        )

    def _vector(self, name: str, size: int) -> int:
        return self._plan.vector(self._checkpoint.vector(name, size))

    def _bias(self, name: str, num_heads: int, rotated: bool = True) -> int:
        if not self._design.qkv_bias and not self._checkpoint.has(name):
            return -1
        values = self._checkpoint.vector(name, num_heads * self._config.head_dim)
        if self._design.paired_rope and rotated:
            values = values[halves_from_pairs(num_heads, self._config.head_dim)]
        return self._plan.vector(values)


def default_scale(head_dim: int) -> float:
    """The usual scale of attention scores: 1 / sqrt(head_dim)."""
    return 1.0 / math.sqrt(head_dim)

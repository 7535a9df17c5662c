"""Loading the matrices of a checkpoint into native memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import guessahead._native as _native
from guessahead.checkpoints.gguf import TensorInfo
from guessahead.engines.native.checkpoint import Checkpoint, Config
from guessahead.types import Int32

MATRIX_TYPES = frozenset(_native.FORMATS)


class Weights:
    """Loads weights of a checkpoint into native memory, and counts the bytes that a pass reads.

    Load them in the order in which a pass reads them: they have that order in memory.
    """

    def __init__(self, checkpoint: Checkpoint, pool: _native.Pool) -> None:
        self._checkpoint, self._pool = checkpoint, pool
        matrices = [tensor for tensor in checkpoint.tensors if len(tensor.shape) == 2]
        known = [tensor for tensor in matrices if tensor.type.name in MATRIX_TYPES]
        num_bytes = sum(_native.packed_bytes(t.type.name, *t.shape) for t in known)
        # Fused matrices are cut into up to three, each of which is rounded up by itself.
        num_bytes += sum(2 * _native.packed_bytes(t.type.name, 1, t.shape[1]) for t in known)
        self._arena = _native.Arena(num_bytes, pool.size)  # address space; unused pages take no memory
        self.num_bytes = 0

    def matrix(
        self, name: str, num_rows: int, num_columns: int, order: Int32 | None = None, *, streamed: bool = True
    ) -> _native.Matrix:
        """order: which file row becomes output i. streamed: a pass reads all of it."""
        tensor = self._checkpoint.matrix(name, num_rows, num_columns)
        return self._pack(tensor, 0, num_rows, order, streamed)

    def parts(self, name: str, num_rows: tuple[int, ...], num_columns: int) -> list[_native.Matrix]:
        """The matrices that are stored in one tensor, one below the other."""
        tensor = self._checkpoint.matrix(name, sum(num_rows), num_columns)
        starts = np.cumsum((0, *num_rows)).tolist()
        return [
            self._pack(tensor, start, num, None, True) for start, num in zip(starts, num_rows, strict=False)
        ]

    def _pack(
        self, tensor: TensorInfo, first: int, num_rows: int, order: Int32 | None, streamed: bool
    ) -> _native.Matrix:
        kind = tensor.type
        if kind.name not in MATRIX_TYPES:
            known = ", ".join(_native.FORMATS)
            self._checkpoint.fail(f"tensor {tensor.name!r} is {kind.name}; supported are {known}")
        row_bytes = kind.row_bytes(tensor.shape[1])
        data = np.frombuffer(tensor.data, np.uint8)[first * row_bytes : (first + num_rows) * row_bytes]
        matrix = _native.Matrix.pack(
            self._pool, kind.name, num_rows, tensor.shape[1], data, order, self._arena
        )
        if streamed:
            self.num_bytes += matrix.num_bytes
        return matrix


@dataclass(frozen=True, slots=True)
class LayerWeights:
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
        cls,
        weights: Weights,
        c: Config,
        name: str,
        q_order: Int32 | None = None,
        k_order: Int32 | None = None,
    ) -> LayerWeights:
        """q_order, k_order: see `Weights.matrix`."""
        return cls(
            query=weights.matrix(name + "attn_q.weight", c.q_width, c.width, q_order),
            key=weights.matrix(name + "attn_k.weight", c.kv_width, c.width, k_order),
            value=weights.matrix(name + "attn_v.weight", c.kv_width, c.width),
            output=weights.matrix(name + "attn_output.weight", c.width, c.q_width),
            gate=weights.matrix(name + "ffn_gate.weight", c.ffn_width, c.width),
            up=weights.matrix(name + "ffn_up.weight", c.ffn_width, c.width),
            down=weights.matrix(name + "ffn_down.weight", c.width, c.ffn_width),
        )

    @classmethod
    def load_fused(cls, weights: Weights, c: Config, name: str) -> LayerWeights:
        """The layer of a file that stores q, k and v in one tensor, and gate and up in another."""
        query, key, value = weights.parts(
            name + "attn_qkv.weight", (c.q_width, c.kv_width, c.kv_width), c.width
        )
        output = weights.matrix(name + "attn_output.weight", c.width, c.q_width)
        gate, up = weights.parts(name + "ffn_up.weight", (c.ffn_width, c.ffn_width), c.width)
        down = weights.matrix(name + "ffn_down.weight", c.width, c.ffn_width)
        return cls(query, key, value, output, gate, up, down)

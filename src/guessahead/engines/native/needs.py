"""The memory needs of a checkpoint in the native engine."""

from __future__ import annotations

from dataclasses import dataclass

import guessahead._native as _native
from guessahead.engines.native.checkpoint import Checkpoint

SEGMENT = 256  # positions that attention processes together


@dataclass(frozen=True, slots=True)
class Needs:
    """Bytes of memory.

    weights: repacked weights, all read into memory.
    buffers: intermediate results of a pass, approximately.
    per_token: keys and values of one token; a sequence allocates them in pages of 64 tokens.
    work_per_token: further memory of passes per token of the longest text so far; for all sequences.
    context: maximum tokens of a sequence.
    streams: reserved copies of the weights' address space (not memory), one for each thread.
    """

    weights: int
    buffers: int
    per_token: int
    work_per_token: int
    context: int
    streams: int

    @property
    def to_load(self) -> int:
        """Memory allocated before the first token."""
        return self.weights + self.buffers

    @property
    def full_context(self) -> int:
        """Memory of a sequence that fills the context."""
        return (self.per_token + self.work_per_token) * self.context


def memory_needs(
    checkpoint: Checkpoint, *, max_rows: int, context: int, threads: int, half_cache: bool
) -> Needs:
    """The needs from the header alone, without reading weights. Unsupported formats count as 0."""
    c = checkpoint.config
    tensors = checkpoint.tensors
    matrices = [t for t in tensors if len(t.shape) == 2 and t.type.name in _native.FORMATS]
    packed = sum(_native.packed_bytes(t.type.name, t.shape[0], t.shape[1]) for t in matrices)
    vectors = sum(t.num_bytes for t in tensors if len(t.shape) == 1)
    q_width, kv_width = c.num_heads * c.head_dim, c.num_kv_heads * c.head_dim
    per_token = 2 * c.num_layers * kv_width * (2 if half_cache else 4)
    # Buffers of the architectures, twice for those that are quantised: an upper bound. The branches of a tree
    # are stored beside the cache.
    row = 4 * (2 * (3 * c.width + 2 * q_width + 2 * kv_width + 3 * c.ffn_width) + c.vocab_size) + per_token
    return Needs(
        weights=packed + vectors,
        buffers=max_rows * row,
        per_token=per_token,
        # One result of attention for every segment and row, and at most two tables of cosines and sines;
        # twice, because the allocator keeps the smaller ones that they replace.
        work_per_token=2 * (4 * max_rows * (q_width + 16 * c.num_heads) // SEGMENT + 8 * c.rope_dim),
        context=context,
        streams=threads,
    )

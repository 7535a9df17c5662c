"""What a checkpoint takes in memory once the native engine has loaded it."""

from __future__ import annotations

from guessahead import _native
from guessahead.engines.native.checkpoint import Checkpoint
from guessahead.models.memory import Needs

SEGMENT = 256  # positions that attention takes together


def memory_needs(
    checkpoint: Checkpoint, *, max_rows: int, context: int, threads: int, half_cache: bool
) -> Needs:
    """From the header alone: nothing of the weights is read. Formats that are not supported count nothing."""
    c = checkpoint.config
    tensors = checkpoint.tensors
    matrices = [t for t in tensors if len(t.shape) == 2 and t.type.name in _native.FORMATS]
    packed = sum(_native.packed_bytes(t.type.name, t.shape[0], t.shape[1]) for t in matrices)
    vectors = sum(t.num_bytes for t in tensors if len(t.shape) == 1)
    q_width, kv_width = c.num_heads * c.head_dim, c.num_kv_heads * c.head_dim
    per_token = 2 * c.num_layers * kv_width * (2 if half_cache else 4)
    # As the architectures lay them out, twice for what is quantised on the way: an upper bound. The branches
    # of a tree wait beside the cache.
    row = 4 * (2 * (3 * c.width + 2 * q_width + 2 * kv_width + 3 * c.ffn_width) + c.vocab_size) + per_token
    return Needs(
        weights=packed + vectors,
        buffers=max_rows * row,
        per_token=per_token,
        # One result of attention for every segment and row, and at most two tables of cosines and sines;
        # twice, as what they outgrow stays with the allocator.
        work_per_token=2 * (4 * max_rows * (q_width + 16 * c.num_heads) // SEGMENT + 8 * c.rope_dim),
        context=context,
        streams=threads,
    )

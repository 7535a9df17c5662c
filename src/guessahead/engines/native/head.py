"""The passes of a draft head on the native kernels; threads and embeddings are those of its target."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

import guessahead._native as _native
from guessahead.checkpoints.gguf.rotation import rotation_frequencies
from guessahead.core.sampling import is_greedy, resolved_seed
from guessahead.engines.native.builder import default_scale
from guessahead.engines.native.head_host import HeadHost
from guessahead.errors import ModelError
from guessahead.heads.files import HeadFiles, find
from guessahead.types import Ask, Draft, Float32, Int32, TreeShape

MAX_ROWS: Final = 64


class NativeHead:
    """A draft head, for any number of sequences. bytes_per_pass: weight bytes that one guess reads."""

    def __init__(self, files: HeadFiles, target: HeadHost) -> None:
        """Raises ModelError if the head does not fit the target."""
        c = files.config
        if c.width != target.embeddings.k or max(c.layers) >= target.num_layers:
            raise ModelError("this head was made for a target of other sizes")
        if int(files.draft_ids[-1]) >= target.embeddings.n:
            raise ModelError("this head was made for another vocabulary")
        self.layers = c.layers
        self.draft_ids = files.draft_ids
        self.context_length = target.context
        unknown = set(c.formats.values()) - set(_native.FORMATS)
        if unknown:
            raise ModelError(f"no kernels for this head's formats: {', '.join(sorted(unknown))}")
        matrices = _pack(files, target.pool)
        self.bytes_per_pass = sum(matrix.num_bytes for name, matrix in matrices.items() if name != "fc")
        self._plan = _describe(files, matrices, target)

    def new_sequence(self) -> NativeHeadSequence:
        return NativeHeadSequence(self._plan, self.draft_ids)


class NativeHeadSequence:
    """The cache of a head for one sequence, and its passes (see `HeadSequence`)."""

    def __init__(self, plan: _native.Plan, draft_ids: Int32) -> None:
        self._plan, self._draft_ids = plan, draft_ids
        self._native = plan.new_sequence()

    @property
    def length(self) -> int:
        return self._native.length

    def rollback(self, length: int) -> None:
        self._native.rollback(length)

    def read(self, next_ids: Int32, fused: Float32) -> tuple[Float32, Float32, Float32]:
        tokens, given = self._read_all_but_last_part(next_ids, fused)
        [result] = self._plan.forward([self._group(tokens, given, "all")], _TAPS)
        last, taps = len(tokens) - 1, result.hidden
        return taps[0][last:], taps[1][last:], (result.logits or {})[last][None]

    def draft(self, next_ids: Int32, fused: Float32, ask: Ask, shape: TreeShape) -> Draft:
        tokens, given = self._read_all_but_last_part(next_ids, fused)
        found = _native.draft_of_head(
            self._plan, self._native, tokens, given, self._draft_ids, _native_ask(ask, shape)
        )
        return Draft(found.tokens, None if found.is_chain else found.parents, found.probabilities)

    def grow(self, tokens: Int32, states: Float32, parents: Int32) -> tuple[Float32, dict[int, Float32]]:
        self.rollback(self.length - 1)  # row 0 runs again, because a pass begins with a committed row
        group = _native.RowGroup(
            sequence=self._native, tokens=tokens, parents=parents, committed=1, logits="all", given=states
        )
        [result] = self._plan.forward([group], _TAPS)
        return result.hidden[1], result.logits or {}

    def _read_all_but_last_part(self, next_ids: Int32, fused: Float32) -> tuple[Int32, Float32]:
        """Run passes of as many rows as fit while more remain; returns the rows of the last pass."""
        while len(next_ids) > MAX_ROWS:
            self._plan.forward([self._group(next_ids[:MAX_ROWS], fused[:MAX_ROWS], "none")], [])
            next_ids, fused = next_ids[MAX_ROWS:], fused[MAX_ROWS:]
        return np.ascontiguousarray(next_ids), np.ascontiguousarray(fused)

    def _group(self, tokens: Int32, given: Float32, logits: str) -> _native.RowGroup:
        tokens, given = np.ascontiguousarray(tokens), np.ascontiguousarray(given)
        return _native.RowGroup(
            sequence=self._native, tokens=tokens, committed=len(tokens), logits=logits, given=given
        )


def _native_ask(ask: Ask, shape: TreeShape) -> _native.HeadAsk:
    params, context = ask.context.params, ask.context
    wanted = _native.HeadAsk(
        budget=ask.budget,
        levels=shape.levels,
        branches=shape.branches,
        width=shape.width,
        least_sibling=shape.least_sibling,
        ends=context.eos_ids,
    )
    if ask.stop is not None:
        wanted.stop(ask.stop.least_path_probability, ask.stop.calibration)
    if not is_greedy(params):
        wanted.sample(
            trust=shape.noise_trust,
            temperature=params.temperature,
            top_k=params.top_k,
            top_p=params.top_p,
            min_p=params.min_p,
            seed=resolved_seed(context),
            stream=context.stream,
            position=len(context.history),
        )
    return wanted


def load_head(head_host: HeadHost, path: str = "") -> NativeHead | None:
    """The head in a folder; "" = the one that belongs to the model, None if there is none.

    Raises ModelError if it is damaged or was made for another target.
    """
    files = HeadFiles.load(Path(path).expanduser()) if path else find(head_host.fingerprint)
    if files is not None and files.config.fingerprint != head_host.fingerprint:
        raise ModelError(f"{path}: this head was made for another model")
    return None if files is None else NativeHead(files, head_host)


_TAPS: Final = [0, 1]  # the layer's input and output


def _pack(files: HeadFiles, pool: _native.Pool) -> dict[str, _native.Matrix]:
    """All matrices in one block of memory, in the order in which a guess reads them."""
    c = files.config
    num_bytes = sum(_native.packed_bytes(c.formats[name], *c.shape(name)) for name in files.matrices)
    arena = _native.Arena(num_bytes, pool.size)
    return {
        name: _native.Matrix.pack(pool, c.formats[name], *c.shape(name), data, None, arena)
        for name, data in files.matrices.items()
    }


def _describe(files: HeadFiles, matrices: dict[str, _native.Matrix], target: HeadHost) -> _native.Plan:
    """One decoder layer, EAGLE-3's: see `guessahead.training.network`."""
    describing = _Describing(files, matrices, target)
    embedded, state = describing.inputs()
    describing.attention(embedded, state)
    describing.feed_forward(state)
    describing.outputs(state)
    return describing.plan


class _Describing:
    """A plan in the making. embedded, state: buffers of the token's embedding, and of the hidden state."""

    def __init__(self, files: HeadFiles, matrices: dict[str, _native.Matrix], target: HeadHost) -> None:
        self._files, self._matrices, self._target = files, matrices, target
        self._config = c = files.config
        self.plan = _native.Plan(
            layers=1,
            kv_heads=c.num_kv_heads,
            head_dim=c.head_dim,
            max_rows=MAX_ROWS,
            context=target.context,
            pool=target.pool,
            isa=target.isa,
        )

    def _buffer(self, columns: int, *, quantised: bool = False, compact: bool = False) -> int:
        return self.plan.buffer(columns, quantised and self._target.int8, compact)

    def _norm(self, name: str, source: int, destination: int, column: int = 0) -> None:
        vector = self.plan.vector(self._files.norms[name])
        self.plan.rmsnorm(source, vector, self._config.norm_epsilon, destination, column)

    def _product(self, name: str, destination: int, *, add: bool = False) -> _native.Product:
        return _native.Product(self._matrices[name], destination, add=add)

    def inputs(self) -> tuple[int, int]:
        """The embedding of the token; the state from the target's hidden states, or from an earlier guess."""
        plan, width = self.plan, self._config.width
        embedded, state = self._buffer(width), self._buffer(width)
        plan.embed(self._target.embeddings, embedded)
        fused_width = len(self._config.layers) * width
        plan.when_given(fused_width)
        hidden = self._buffer(fused_width, quantised=True)
        plan.given(hidden)
        plan.matmul(hidden, [self._product("fc", state)])
        plan.when_given(width)
        plan.given(state)
        plan.when_given(0)
        plan.tap(state)
        return embedded, state

    def attention(self, embedded: int, state: int) -> None:
        plan, c = self.plan, self._config
        both = self._buffer(2 * c.width, quantised=True)
        self._norm("input_layernorm", embedded, both)
        self._norm("hidden_norm", state, both, column=c.width)
        query = self._buffer(c.num_heads * c.head_dim)
        key, value = (self._buffer(c.num_kv_heads * c.head_dim) for _ in range(2))
        named = {"q_proj": query, "k_proj": key, "v_proj": value}
        plan.matmul(both, [self._product(name, destination) for name, destination in named.items()])
        attended = self._buffer(c.num_heads * c.head_dim, quantised=True)
        frequencies: Sequence[float] = rotation_frequencies(c.head_dim, c.rope_base)
        plan.attention(0, query, key, value, attended, c.num_heads, frequencies, default_scale(c.head_dim))
        plan.matmul(attended, [self._product("o_proj", state, add=True)])

    def feed_forward(self, state: int) -> None:
        c = self._config
        normed = self._buffer(c.width, quantised=True)
        self._norm("post_attention_layernorm", state, normed)
        gate, up = self._buffer(c.ffn_width), self._buffer(c.ffn_width)
        gated = self._buffer(c.ffn_width, quantised=True)
        self.plan.gated(normed, self._matrices["gate_proj"], self._matrices["up_proj"], gate, up, gated)
        self.plan.matmul(gated, [self._product("down_proj", state, add=True)])
        self.plan.tap(state)

    def outputs(self, state: int) -> None:
        c = self._config
        last = self._buffer(c.width, quantised=True, compact=True)
        logits = self._buffer(c.vocab_size, compact=True)
        self._norm("norm", state, last)
        self.plan.matmul(last, [self._product("lm_head", logits)])
        self.plan.logits(logits)

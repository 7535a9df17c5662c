"""A draft head without weights, for a FakeEngine: it reads in the hidden states which text they stand for.

So it can insist on what a real head silently needs: that the hidden states of position t come with the token
at t + 1, each position once, in order, and that guesses follow the state in which they were made.
"""

from __future__ import annotations

import numpy as np

from guessahead.types import Ask, Draft, Float32, Int32, TreeShape
from tests.support.fakes import FakeEngine, TinyEngine
from tests.support.head_draft import draft_of_head

ENTRY, STATE = -2, -1  # what a vector is: made of hidden states, or of a guess


class FakeHeadSequence:
    """texts[row]: the tokens that a row stands for, up to the one it was read or guessed with."""

    def __init__(self, head: FakeHead) -> None:
        self._head = head
        self.texts: list[tuple[int, ...]] = []

    @property
    def length(self) -> int:
        return len(self.texts)

    def rollback(self, length: int) -> None:
        assert 0 <= length <= len(self.texts)
        del self.texts[length:]

    def read(self, next_ids: Int32, fused: Float32) -> tuple[Float32, Float32, Float32]:
        return self._head.read(self, next_ids, fused)

    def grow(self, tokens: Int32, states: Float32, parents: Int32) -> tuple[Float32, dict[int, Float32]]:
        return self._head.grow(self, tokens, states, parents)

    def draft(self, next_ids: Int32, fused: Float32, ask: Ask, shape: TreeShape) -> Draft:
        return draft_of_head(self, self._head.draft_ids, next_ids, fused, ask, shape)


class FakeHead:
    """A draft head that guesses what another model would choose, from a part of its vocabulary.

    read_texts: of every row that was read, in order. num_read: rows of each call of `read`.
    """

    bytes_per_pass = 50

    def __init__(
        self, target: FakeEngine, model: FakeEngine | None = None, layers: tuple[int, ...] = (0, 1)
    ) -> None:
        """model: what it has learned; default: one like the target. Every fifth token is left out."""
        self._target = target
        known = (
            TinyEngine(target.info.vocab_size, seed=1, like=target)
            if isinstance(target, TinyEngine)
            else target
        )
        self._model = model or known
        self.layers = layers
        self.draft_ids = np.array([i for i in range(target.info.vocab_size) if i % 5 != 4], np.int32)
        self.context_length = target.info.context_length
        self.read_texts: list[tuple[int, ...]] = []
        self.num_read: list[int] = []

    def new_sequence(self) -> FakeHeadSequence:
        return FakeHeadSequence(self)

    def read(
        self, sequence: FakeHeadSequence, next_ids: Int32, fused: Float32
    ) -> tuple[Float32, Float32, Float32]:
        assert next_ids.dtype == np.int32
        assert len(next_ids) > 0
        assert fused.dtype == np.float32
        assert fused.shape == (len(next_ids), 2 * len(self.layers))
        for token, row in zip(next_ids.tolist(), fused.reshape(len(next_ids), -1, 2).tolist(), strict=True):
            numbers = {number for _, number in row}
            assert tuple(layer for layer, _ in row) == self.layers
            assert len(numbers) == 1, "the layers are of different rows"
            before = self._target.histories[int(numbers.pop())]
            assert not sequence.texts or sequence.texts[-1] == before, (
                "a position is missing, or out of order"
            )
            self._append(sequence, (*before, token))
            self.read_texts.append((*before, token))
        self.num_read.append(len(next_ids))
        entry = np.array([[ENTRY, self._target.number_of(sequence.texts[-1][:-1])]], np.float32)
        return entry, *self._result(sequence.texts[-1])

    def grow(
        self, sequence: FakeHeadSequence, tokens: Int32, states: Float32, parents: Int32
    ) -> tuple[Float32, dict[int, Float32]]:
        assert tokens.dtype == parents.dtype == np.int32
        assert states.shape == (len(tokens), 2)
        assert parents[0] == -1, "row 0 is the last one that was read"
        whole = sequence.texts[-1]
        assert states[0].tolist() == [ENTRY, self._target.number_of(whole[:-1])]
        assert tokens[0] == whole[-1]
        texts = [whole]
        for row, (token, parent) in enumerate(zip(tokens.tolist(), parents.tolist(), strict=True)):
            if row == 0:
                continue
            assert 0 <= parent < row
            before = texts[parent]
            assert states[row].tolist() == [STATE, self._target.number_of(before)], "not its parent's state"
            texts.append((*before, token))
        deepest = max(len(text) for text in texts) - len(whole)
        assert len(sequence.texts) + deepest <= self.context_length, "the head's cache is full"
        results = [self._result(text) for text in texts]
        return np.concatenate([state for state, _ in results]), {
            row: logits[0] for row, (_, logits) in enumerate(results)
        }

    def _append(self, sequence: FakeHeadSequence, text: tuple[int, ...]) -> None:
        assert len(sequence.texts) < self.context_length, "the head's cache is full"
        sequence.texts.append(text)

    def _result(self, text: tuple[int, ...]) -> tuple[Float32, Float32]:
        state = np.array([[STATE, self._target.number_of(text)]], np.float32)
        return state, self._model.logits_after(text)[self.draft_ids][None]

"""The cache of one generation, kept for the next: the common beginning of both texts is not read again."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from guessahead.types import Int32

if TYPE_CHECKING:
    from guessahead.protocols import Engine, SequenceState


class KeptPrefix:
    """Keeps the sequence of the last generation for the next one, cut at the first difference of their texts.

    A cached token has the same bits however it was computed (row independence), so no output depends on it.
    While one generation uses the sequence, another one starts with an empty sequence.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        # At most one, with its tokens. Each call of a deque is atomic; a lock that another thread holds would
        # stay locked in the child of a fork.
        self._kept: deque[tuple[SequenceState, Int32]] = deque()

    def take(self, prompt_ids: Int32) -> SequenceState:
        """A sequence that holds a part of the prompt, at most all but its last token."""
        try:
            sequence, token_ids = self._kept.pop()
        except IndexError:
            return self._engine.new_sequence()
        sequence.rollback(min(num_common(token_ids, prompt_ids), len(prompt_ids) - 1))
        return sequence

    def put(self, sequence: SequenceState, history: Int32) -> None:
        """Keep a sequence whose cached tokens are the first ones of `history`."""
        self.close()
        self._kept.append((sequence, history[: sequence.length].copy()))

    def close(self) -> None:
        """Free the kept sequence."""
        while True:
            try:
                sequence, _ = self._kept.pop()
            except IndexError:
                return
            sequence.close()


def num_common(one: Int32, other: Int32) -> int:
    """The length of the common beginning of both texts."""
    shorter = min(len(one), len(other))
    different = np.flatnonzero(one[:shorter] != other[:shorter])
    return int(different[0]) if len(different) else shorter

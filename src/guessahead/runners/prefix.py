"""The cache of one generation kept for the next: what both texts begin with is not read again."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from guessahead.types import EMPTY_IDS, Int32

if TYPE_CHECKING:
    from guessahead.protocols import Engine, SequenceState


class KeptPrefix:
    """Hands the sequence of the last generation to the next one, cut where its text first differs.

    A cached token yields the same bits however it got there (row independence), so no output depends on it.
    While one generation has the sequence, another one starts with an empty sequence of its own.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = Lock()
        self._sequence: SequenceState | None = None
        self._token_ids = EMPTY_IDS

    def take(self, prompt_ids: Int32) -> SequenceState:
        """A sequence that holds a part of the prompt: at most all but its last token, which must be fed."""
        with self._lock:
            sequence, self._sequence = self._sequence, None
        if sequence is None:
            return self._engine.new_sequence()
        sequence.rollback(min(num_common(self._token_ids, prompt_ids), len(prompt_ids) - 1))
        return sequence

    def put(self, sequence: SequenceState, history: Int32) -> None:
        """Keep a sequence whose cached tokens are the first ones of `history`."""
        token_ids = history[: sequence.length].copy()
        with self._lock:
            older, self._sequence, self._token_ids = self._sequence, sequence, token_ids
        if older is not None:
            older.close()

    def close(self) -> None:
        """Free what is kept."""
        with self._lock:
            sequence, self._sequence = self._sequence, None
        if sequence is not None:
            sequence.close()


def num_common(one: Int32, other: Int32) -> int:
    """How many tokens both begin with."""
    shorter = min(len(one), len(other))
    different = np.flatnonzero(one[:shorter] != other[:shorter])
    return int(different[0]) if len(different) else shorter

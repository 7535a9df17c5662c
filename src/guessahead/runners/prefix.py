"""The cache of one generation, kept for the next: the common beginning of both texts is not read again."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from guessahead.types import EMPTY_IDS, Int32

if TYPE_CHECKING:
    from guessahead.protocols import Engine, SequenceState


class KeptPrefix:
    """Keeps the sequence of the last generation for the next one, cut at the first difference of their texts.

    A cached token has the same bits however it was computed (row independence), so no output depends on it.
    While one generation uses the sequence, another one starts with an empty sequence.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = Lock()
        self._sequence: SequenceState | None = None
        self._token_ids = EMPTY_IDS

    def take(self, prompt_ids: Int32) -> SequenceState:
        """A sequence that holds a part of the prompt, at most all but its last token."""
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
        """Free the kept sequence."""
        with self._lock:
            sequence, self._sequence = self._sequence, None
        if sequence is not None:
            sequence.close()


def num_common(one: Int32, other: Int32) -> int:
    """The length of the common beginning of both texts."""
    shorter = min(len(one), len(other))
    different = np.flatnonzero(one[:shorter] != other[:shorter])
    return int(different[0]) if len(different) else shorter

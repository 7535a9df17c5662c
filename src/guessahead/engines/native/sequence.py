"""The cache of one running sequence of the native engine."""

from __future__ import annotations

import numpy as np

import guessahead._native as _native
from guessahead.engines.native.choosing import chooser_arguments
from guessahead.errors import StateError
from guessahead.protocols import SequenceState
from guessahead.types import ChoiceContext, Int32


class NativeSequence:
    """The cache of one running sequence (see `SequenceState`)."""

    def __init__(self, native: _native.Sequence) -> None:
        self._native: _native.Sequence | None = native
        self._chooser: _native.Chooser | None = None
        self._chooser_key: tuple[object, ...] = ()
        self.first_row = 0  # the first row of the last pass of the last `forward`

    @property
    def native(self) -> _native.Sequence:
        """The native object; raises StateError if the sequence is closed."""
        if self._native is None:
            raise StateError("this sequence is closed")
        return self._native

    @property
    def length(self) -> int:
        return self.native.length

    @property
    def num_bytes(self) -> int:
        """Bytes of cache pages this sequence holds, shared ones included."""
        return self.native.num_bytes

    def keep(self, path: Int32) -> None:
        try:
            self.native.keep(np.ascontiguousarray(path - self.first_row, np.int32))
        except ValueError as error:
            raise StateError(str(error)) from None

    def rollback(self, length: int) -> None:
        try:
            self.native.rollback(length)
        except ValueError:
            raise StateError(f"cannot roll back to {length}: the sequence has {self.length} tokens") from None

    def fork(self) -> SequenceState:
        return NativeSequence(self.native.fork())

    def chooser(self, context: ChoiceContext) -> _native.Chooser:
        """The native chooser of this sequence; created once for a generation, updated with new tokens."""
        key = (context.params, context.prompt_length, context.eos_ids, context.stream)
        if self._chooser is None or self._chooser_key != key:
            self._chooser, self._chooser_key = _native.Chooser(**chooser_arguments(context)), key
        self._chooser.sync(context.history)
        return self._chooser

    def close(self) -> None:
        self._native = None

"""Between token ids and the text a reader sees: the incremental decoder with its stop strings; chat
templates.

The engine below speaks token ids only.
"""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Sequence
from typing import Final

from guessahead.errors import ParameterError, StateError
from guessahead.text.chat_template import ChatTemplate
from guessahead.text.tokenizer import Tokenizer

__all__ = ["ChatTemplate", "StopMatcher", "StreamDecoder"]


class StopMatcher:
    """Finds several strings in a text that arrives in pieces: Aho and Corasick 1975, one dictionary step per
    character.

    State: the longest suffix of the text so far that begins some stop string.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        """Errors: ParameterError for an empty stop string, or one that is not a string."""
        if isinstance(stops, str):
            raise ParameterError(f"stop strings come as a list, not as one string {stops!r}")
        for stop in stops:
            if not isinstance(stop, str) or not stop:
                raise ParameterError(f"a stop string must be a non-empty string, not {stop!r}")
        self._next: Final[list[dict[str, int]]] = [{}]
        self._depth: Final = [0]  # characters held by each state
        self._match: Final = [0]  # length of the longest stop string that ends in each state; 0: none
        self._fail: Final = [0]  # the state of the longest proper suffix
        for stop in stops:
            self._insert(stop)
        self._link()
        self._state = 0

    @property
    def num_held(self) -> int:
        """How many of the last characters may still become part of a stop string."""
        return self._depth[self._state]

    def feed(self, piece: str) -> int | None:
        """Read on. If a stop string ends in `piece`: where the one with the earliest start begins.

        The position counts from the start of `piece` and is negative for a stop string that began before it.
        """
        if len(self._next) == 1:
            return None
        earliest: int | None = None
        for position, char in enumerate(piece):
            self._state = self._step(self._state, char)
            length = self._match[self._state]
            if length:
                start = position + 1 - length
                earliest = start if earliest is None else min(earliest, start)
        return earliest

    def _insert(self, stop: str) -> None:
        state = 0
        for char in stop:
            if char not in self._next[state]:
                self._next[state][char] = len(self._next)
                self._next.append({})
                self._depth.append(self._depth[state] + 1)
                self._match.append(0)
                self._fail.append(0)
            state = self._next[state][char]
        self._match[state] = len(stop)

    def _link(self) -> None:
        """Set fail and match, breadth first: a state's suffix is shorter, so it is done before the state."""
        queue = deque(self._next[0].values())
        while queue:
            state = queue.popleft()
            for char, child in self._next[state].items():
                self._fail[child] = self._step(self._fail[state], char)
                queue.append(child)
            if not self._match[state]:
                self._match[state] = self._match[self._fail[state]]

    def _step(self, state: int, char: str) -> int:
        while char not in self._next[state]:
            if state == 0:
                return 0
            state = self._fail[state]
        return self._next[state][char]


class StreamDecoder:
    """Turns the tokens of one answer into text, piece by piece, each character as soon as it is certain.

    Without a stop string, the joined pieces of `add` and `finish` equal `tokenizer.decode` of all ids. Held
    back: the bytes of an unfinished character, and characters that may turn out to begin a stop string.
    Linear in the text.

    Of several stop strings the one that completes in the earliest token wins; among those that complete in
    the same token, the one that starts first.
    """

    def __init__(self, tokenizer: Tokenizer, stops: Sequence[str] = ()) -> None:
        """Errors: ParameterError for an empty stop string."""
        self._tokenizer: Final = tokenizer
        self._matcher: Final = StopMatcher(stops)
        self._utf8: Final = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._held = ""
        self._stopped = False
        self._finished = False

    @property
    def stopped(self) -> bool:
        """Whether a stop string has completed. The text ends before it; nothing is held back any more."""
        return self._stopped

    def add(self, token_id: int) -> str:
        """The text that is certain after one more token; often "". Control tokens (EOS) contribute none.

        Errors: StateError after a stop string or `finish`; ParameterError for an id outside the vocabulary.
        """
        if self._stopped or self._finished:
            raise StateError("no token may follow a completed stop string or finish()")
        return self._release(self._utf8.decode(self._tokenizer.token_bytes(token_id)))

    def finish(self) -> str:
        """The held-back rest; an unfinished character becomes U+FFFD. "" after a stop string or a repeat."""
        if self._stopped or self._finished:
            return ""
        self._finished = True
        shown = self._release(self._utf8.decode(b"", final=True))
        if self._stopped:  # a stop string that ends with U+FFFD itself
            return shown
        rest, self._held = self._held, ""
        return shown + rest

    def _release(self, piece: str) -> str:
        """Take in new characters; give out those before a stop string, or before what may become one."""
        start = self._matcher.feed(piece)
        text = self._held + piece
        if start is not None:
            self._stopped = True
            shown, self._held = text[: len(self._held) + start], ""
            return shown
        cut = len(text) - self._matcher.num_held
        shown, self._held = text[:cut], text[cut:]
        return shown

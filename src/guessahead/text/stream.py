"""Token ids to the text a reader sees, as they come: whole characters, and the stop strings that end it."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import Final

from guessahead.errors import ParameterError, StateError
from guessahead.text.chat_template import ChatTemplate
from guessahead.text.tokenizer import Tokenizer

__all__ = ["ChatTemplate", "StopMatcher", "StreamDecoder"]


_FIRST_MARK: Final = 0xD800  # lone surrogates do not occur in decoded text
_NUM_MARKS: Final = 0x800


class StopMatcher:
    """Finds a few short strings in a text that arrives in pieces.

    It keeps as much of the end of the text as a stop string may have begun in. Positions and numbers count
    visible characters: marks, which stand for control tokens, are none.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        """Errors: ParameterError for an empty stop string, or one that is not a string."""
        if isinstance(stops, str):
            raise ParameterError(f"stop strings come as a list, not as one string {stops!r}")
        for stop in stops:
            if not isinstance(stop, str) or not stop:
                raise ParameterError(f"a stop string must be a non-empty string, not {stop!r}")
        self._stops: Final = tuple(stops)
        self._longest: Final = max(map(len, stops), default=1)
        self.has_stops: Final = bool(self._stops)
        self._end = ""

    @property
    def num_held(self) -> int:
        """How many of the last characters may still become part of a stop string."""
        for start in range(len(self._end)):
            if any(stop.startswith(self._end[start:]) for stop in self._stops):
                return _num_visible(self._end[start:])
        return 0

    def feed(self, piece: str) -> int | None:
        """Read on. If a stop string ends in `piece`: where the one with the earliest start begins.

        The position counts from the start of `piece` and is negative for a stop string that began before it.
        """
        text, before = self._end + piece, len(self._end)
        self._end = text[max(len(text) - self._longest + 1, 0) :]
        starts = [text.find(stop, max(before - len(stop) + 1, 0)) for stop in self._stops]
        start = min((start for start in starts if start >= 0), default=None)
        if start is None:
            return None
        return _num_visible(text[before:start]) if start >= before else -_num_visible(text[start:before])


class StreamDecoder:
    """Turns the tokens of one answer into text, piece by piece, each character as soon as it is certain.

    Without a stop string, the joined pieces of `add` and `finish` equal `tokenizer.decode` of all ids. Held
    back: the bytes of an unfinished character, and characters that may turn out to begin a stop string.
    Linear in the text.

    Of several stop strings the one that completes in the earliest token wins; among those that complete in
    the same token, the one that starts first. Where a stop string contains the name of a control token, that
    token matches as well as the same text. One that completes within the first `min_tokens` tokens is text.
    """

    def __init__(self, tokenizer: Tokenizer, stops: Sequence[str] = (), min_tokens: int = 0) -> None:
        """Errors: ParameterError for an empty stop string."""
        self._tokenizer: Final = tokenizer
        self._min_tokens: Final = min_tokens
        self._plain: Final = StopMatcher(stops)
        self._marks: Final[dict[int, str]] = {}
        self._marked: Final = StopMatcher(
            [form for stop in stops if (form := self._with_marks(stop)) != stop]
        )
        self._utf8: Final = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._held = ""
        self._num_tokens = 0
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
        return self._take(token_id, self._tokenizer.token_bytes(token_id))

    def end(self, token_id: int) -> str:
        """As `add`, of the token that ends the text, and shows nothing. A stop string may end with it."""
        return self._take(token_id, b"")

    def finish(self) -> str:
        """The held-back rest; an unfinished character becomes U+FFFD. "" after a stop string or a repeat."""
        if self._stopped or self._finished:
            return ""
        self._finished = True
        shown = self._release(self._utf8.decode(b"", final=True), "")
        if self._stopped:  # a stop string that ends with U+FFFD itself
            return shown
        rest, self._held = self._held, ""
        return shown + rest

    def _with_marks(self, stop: str) -> str:
        """The stop string with a mark for each name of a control token."""
        parts = self._tokenizer.cut_control(stop)
        for part in parts:
            if isinstance(part, int) and part not in self._marks:
                if len(self._marks) == _NUM_MARKS:
                    raise ParameterError(f"the stop strings contain more than {_NUM_MARKS} control tokens")
                self._marks[part] = chr(_FIRST_MARK + len(self._marks))
        return "".join(part if isinstance(part, str) else self._marks[part] for part in parts)

    def _take(self, token_id: int, data: bytes) -> str:
        if self._stopped or self._finished:
            raise StateError("no token may follow a completed stop string or finish()")
        self._num_tokens += 1
        return self._release(self._utf8.decode(data), self._marks.get(token_id, ""))

    def _release(self, piece: str, mark: str) -> str:
        """Take in new characters; give out those before a stop string, or before what may become one."""
        if not self._plain.has_stops:
            return piece
        found = (self._plain.feed(piece), self._marked.feed(piece + mark))
        start = min((each for each in found if each is not None), default=None)
        text = self._held + piece
        if start is not None and self._num_tokens > self._min_tokens:
            self._stopped = True
            shown, self._held = text[: len(self._held) + start], ""
            return shown
        cut = len(text) - max(self._plain.num_held, self._marked.num_held)
        shown, self._held = text[:cut], text[cut:]
        return shown


def _num_visible(text: str) -> int:
    return sum(not _FIRST_MARK <= ord(char) < _FIRST_MARK + _NUM_MARKS for char in text)

"""Conversion between two tokenizers: one model's text in the ids of another, and its guesses back.

Both directions are used for guesses only. If text cannot be converted exactly (bytes that are not a
character, a byte that a vocabulary lacks), the guesses get worse, with no other effect.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from guessahead.text.tokenizer import Tokenizer
    from guessahead.types import Int32

# Minimum and maximum number of characters at the end of the text that are encoded again in every step. How
# text is cut into tokens depends on what follows within a word or a run of spaces, not on the next lines.
LEAST_TAIL: Final = 48
MOST_TAIL: Final = 160
_TRIES: Final = 4  # positions per step at which the text may be cut
# The part at the end of a text that may continue: a word, a run of other characters, or of spaces.
_OPEN: Final = re.compile(r"(?: ?\w+| ?[^\w\s]+|\s+)\Z")


@dataclass(frozen=True, slots=True)
class Piece:
    """One guess of the other model: its bytes and its probability."""

    data: bytes
    probability: float


def continuation(tokenizer: Tokenizer, text: str, *, special: bool = False) -> list[int]:
    """The ids of text that continues other text: no BOS, and no added space."""
    ids = tokenizer.encode(text, special=special, bos=False)
    if sum(len(tokenizer.token_bytes(token_id, special=True)) for token_id in ids) <= len(text.encode()):
        return ids
    # Some tokenizers add a space before any text: encode it after a newline, and remove the newline.
    before, both = (tokenizer.encode(part, special=special, bos=False) for part in ("\n", "\n" + text))
    return both[len(before) :] if both[: len(before)] == before else ids


class Reread:
    """The text of one tokenizer's tokens in the ids of another, extended step by step.

    Only the end of the text, the tail, is encoded in each call; its beginning moves to positions at which
    cutting the text was found to make no difference.
    """

    def __init__(self, writer: Tokenizer, reader: Tokenizer) -> None:
        self._writer, self._reader = writer, reader
        self._bytes = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._num_read = 0
        self._settled: list[int] = [reader.bos_id] if reader.adds_bos and reader.bos_id is not None else []
        self._tail = " " if _puts_space(reader) else ""

    @property
    def pending(self) -> bytes:
        """The bytes at the end of the text that are not a whole character yet, and not in any id."""
        return bytes(self._bytes.getstate()[0])

    @property
    def num_settled(self) -> int:
        """The number of ids that are final."""
        return len(self._settled)

    def read(self, token_ids: Int32) -> list[int]:
        """The ids of the text of all these tokens; they begin with those of the call before."""
        for position in range(self._num_read, len(token_ids)):
            self._tail += self._bytes.decode(self._shown(position, int(token_ids[position])))
        self._num_read = len(token_ids)
        ids = continuation(self._reader, self._tail, special=True)
        whole = [*self._settled, *ids]
        if len(self._tail) > MOST_TAIL:
            self._settle(ids)
        return whole

    def _shown(self, position: int, token_id: int) -> bytes:
        writer = self._writer
        begins = position == 0 and writer.adds_bos and token_id == writer.bos_id
        if begins or token_id >= writer.vocab_size:  # the reader has its own beginning; padding
            return b""
        return writer.token_bytes(token_id, special=True)

    def _settle(self, ids: list[int]) -> None:
        """Move the beginning of the tail to a token that begins with a space, or to any token."""
        sizes = [len(self._reader.token_bytes(token_id, special=True)) for token_id in ids]
        data = self._tail.encode()
        ends, end = [], 0
        for size in sizes:
            end += size
            ends.append(end)
        cuts = [k for k in range(1, len(ids)) if ends[k - 1] <= len(data) - LEAST_TAIL]
        words = [k for k in cuts if data[ends[k - 1] : ends[k - 1] + 1].isspace()]
        for k in (*words[: -_TRIES - 1 : -1], *cuts[: -_TRIES - 1 : -1]):
            try:
                rest = data[ends[k - 1] :].decode()
            except UnicodeDecodeError:
                continue  # within a character
            if continuation(self._reader, rest, special=True) == ids[k:]:
                self._settled += ids[:k]
                self._tail = rest
                return
        if len(self._tail) > 4 * MOST_TAIL:  # none: worse guesses are better than ever longer steps
            self._settled += ids
            self._tail = ""


class Rewritten:
    """Guessed text in the writer's ids.

    pending: bytes of the committed text that the guessed text must begin with, as the reader could not read
    half a character. num_ids: ids from there on, which the writer's model lacks, end the text.
    """

    def __init__(self, writer: Tokenizer, pending: bytes, num_ids: int) -> None:
        self._writer, self._pending, self._num_ids = writer, pending, num_ids

    def ids(self, data: bytes) -> list[tuple[int, int]]:
        """The (id, end) of each token after the pending bytes; end: offset in data."""
        text = _whole_characters(data)
        if not data.startswith(self._pending) or len(text) == 0:
            return []
        found, end = [], 0
        for token_id in continuation(self._writer, text):
            shown = self._writer.token_bytes(token_id)
            start, end = end, end + len(shown)
            if data[start:end] != shown or not shown or token_id >= self._num_ids:
                break
            if start >= len(self._pending):
                found.append((token_id, end))
            elif end > len(self._pending):
                return []  # a token crosses the committed bytes: the guess is not possible
        return found

    def guesses(self, pieces: Sequence[Piece], *, ended: bool) -> list[tuple[int, float]]:
        """The tokens that the pieces make, each with its probability given the one before.

        A token at the end of the text is omitted unless the text has ended: " bro" may become " brown".
        It is kept if one piece contains all of it, since a whole word is mostly one piece.
        """
        data = b"".join(piece.data for piece in pieces)
        found = self.ids(data)
        if found and not ended:
            found = found[: self._num_closed(found, data, len(pieces[-1].data))]
        probabilities, start = _probabilities(pieces, len(self._pending)), len(self._pending)
        guesses = []
        for token_id, end in found:
            probability = 1.0
            for offset, each in probabilities:
                if start <= offset < end:
                    probability *= each
            guesses.append((token_id, probability))
            start = end
        return guesses

    def _num_closed(self, found: list[tuple[int, int]], data: bytes, last: int) -> int:
        """The number of tokens that further text will not change. last: bytes of the last piece."""
        text = _whole_characters(data)
        size = len(text.encode())
        opened = _OPEN.search(text)
        begins = size if opened is None else len(text[: opened.start()].encode())
        if size == len(data) and begins >= size - last:
            return len(found)
        before = self.ids(data[: len(data) - last])
        persisted = 0
        while persisted < min(len(before), len(found)) and before[persisted] == found[persisted]:
            persisted += 1
        return max(persisted, sum(end <= begins for _, end in found))


def _probabilities(pieces: Sequence[Piece], first: int) -> list[tuple[int, float]]:
    """For each piece: (offset of its first guessed byte, probability)."""
    offset, probabilities = 0, []
    for piece in pieces:
        probabilities.append((max(offset, first), piece.probability))
        offset += len(piece.data)
    return probabilities


def _whole_characters(data: bytes) -> str:
    """The text of the bytes, up to the last whole character."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        return data[: error.start].decode()


def _puts_space(tokenizer: Tokenizer) -> bool:
    """Whether the tokenizer adds a space before the text of a prompt."""
    ids = tokenizer.encode("a", bos=False)
    return bool(ids) and tokenizer.token_bytes(ids[0])[:1] == b" "

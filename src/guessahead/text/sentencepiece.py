"""SentencePiece vocabularies of GGUF files ("llama"): text to ids by the scores of the pieces.

Of all neighbours that together form a piece, those whose piece has the highest score are joined first, the
leftmost of equal ones; parts that are not a piece in the end are written as bytes (`<0x0A>`). A space is
written U+2581. Source of the rule: Kudo and Richardson 2018 (BPE mode); llama.cpp, whose ids are the
reference, has no normalisation and treats any token as a piece, whatever its type.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final

from guessahead.errors import TokenizerError

SPACE: Final = "\u2581"
_NUM_REMEMBERED: Final = 1 << 16  # words whose ids are cached


class Pieces:
    """Encodes text with the pieces of a vocabulary, in linear time for words of bounded length."""

    def __init__(self, tokens: Sequence[str], scores: Sequence[float]) -> None:
        """Errors: TokenizerError if a byte has no token, because some texts could not be encoded."""
        self._ids: Final = {token: token_id for token_id, token in enumerate(tokens)}
        self._scores: Final = list(scores)
        self._bytes: Final = [self._byte_id(byte) for byte in range(256)]
        # If no piece contains a space after its first character, nothing is joined across the beginning of a
        # word, so words can be encoded one by one and cached.
        spans = any(re.search(f"[^{SPACE}]{SPACE}", token) for token in tokens)
        self._words: Final = re.compile("(?s:.+)" if spans else f"{SPACE}*[^{SPACE}]+|{SPACE}+")
        self._word_ids = lru_cache(_NUM_REMEMBERED)(self._join)

    def encode(self, text: str) -> list[int]:
        """The ids of `text`, with its spaces unchanged."""
        ids: list[int] = []
        for word in self._words.findall(text.replace(" ", SPACE)):
            ids.extend(self._word_ids(word) if len(word) < 64 else self._join(word))
        return ids

    def _byte_id(self, byte: int) -> int:
        for name in (f"<0x{byte:02X}>", chr(byte) if byte < 128 else ""):
            if name in self._ids:
                return self._ids[name]
        raise TokenizerError(f"the vocabulary has no token for the byte 0x{byte:02X}")

    def _join(self, word: str) -> tuple[int, ...]:
        """Join neighbours, best first. A part is stored at the index of its first character; "" = joined."""
        parts = list(word)
        after = list(range(1, len(parts) + 1))
        before = list(range(-1, len(parts) - 1))
        waiting = [entry for left, (a, b) in enumerate(pairwise(parts)) if (entry := self._entry(left, a, b))]
        heapq.heapify(waiting)
        while waiting:
            _, left, right, joined = heapq.heappop(waiting)
            if after[left] != right or parts[left] + parts[right] != joined:  # a part has changed
                continue
            parts[left], parts[right] = joined, ""
            follows = after[left] = after[right]
            if follows < len(parts):
                before[follows] = left
                self._offer(waiting, left, follows, parts)
            if before[left] >= 0:
                self._offer(waiting, before[left], left, parts)
        return tuple(token_id for part in parts if part for token_id in self._part_ids(part))

    def _entry(self, left: int, a: str, b: str) -> tuple[float, int, int, str] | None:
        token_id = self._ids.get(a + b)
        return None if token_id is None else (-self._scores[token_id], left, left + 1, a + b)

    def _offer(
        self, waiting: list[tuple[float, int, int, str]], left: int, right: int, parts: list[str]
    ) -> None:
        joined = parts[left] + parts[right]
        token_id = self._ids.get(joined)
        if token_id is not None:
            heapq.heappush(waiting, (-self._scores[token_id], left, right, joined))

    def _part_ids(self, part: str) -> list[int]:
        token_id = self._ids.get(part)
        return [token_id] if token_id is not None else [self._bytes[byte] for byte in part.encode()]

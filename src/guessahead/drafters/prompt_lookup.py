"""Guess that the text goes on as it did the last time these words stood here.

The last tokens are looked up in the prompt and the output so far: the longest match wins, then the most
recent one, and what followed it is the guess. Text that repeats itself (code, edits, answers that quote the
prompt) is guessed well, at no cost. (Saxena 2023, "prompt lookup decoding"; Yang et al. 2023, "LLMA".)
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from guessahead.drafters.base import STATED_PRIOR, Drafter, DrafterResources, Prior
from guessahead.drafters.suffix_texts import NOVELTY
from guessahead.errors import ParameterError
from guessahead.types import NO_DRAFT, Ask, ChoiceContext, Draft, Int32


@dataclass(frozen=True, slots=True)
class PromptLookupOptions:
    """max_ngram: most tokens compared. min_ngram: shortest match that counts, 1 <= min_ngram <= max_ngram."""

    max_ngram: int = 8
    min_ngram: int = 2

    def __post_init__(self) -> None:
        if not 1 <= self.min_ngram <= self.max_ngram:
            raise ParameterError(
                f"1 <= min_ngram <= max_ngram must hold, not {self.min_ngram} and {self.max_ngram}"
            )


@dataclass(frozen=True, slots=True)
class Match:
    """end: index of the matching passage's last token; length: how many tokens match."""

    end: int
    length: int


class NgramIndex:
    """Where did the last tokens stand before? Append-only; a look-up costs at most max_ngram steps.

    A trie of the passages read backwards. A node stands for a passage (its path, reversed), and knows the
    most recent place where that passage ended. A branch is only as deep as needed to tell its places apart:
    the second visit to a leaf pushes the first one a level down. So text without repetition costs about two
    nodes per token, not max_ngram.
    """

    def __init__(self, max_ngram: int) -> None:
        self._max_ngram = max_ngram
        self._tokens = array("i")
        self._children: dict[tuple[int, int], int] = {}
        self._last = array("q", [-1])
        self._is_leaf = bytearray([False])
        self._num_indexed = 0

    def extend(self, history: Int32) -> None:
        """Take in the tokens of `history` that are new; the rest of it must be what is known already."""
        self._tokens.extend(history[len(self._tokens) :].tolist())
        while self._num_indexed < len(self._tokens) - 1:  # the last token has no continuation to offer yet
            self._insert(self._num_indexed)
            self._num_indexed += 1

    def longest_match(self) -> Match:
        """The longest earlier passage equal to the last tokens, the most recent if there are several."""
        tokens, end, node, depth = self._tokens, -1, 0, 0
        last = len(tokens) - 1
        while depth < min(self._max_ngram, len(tokens)) and not self._is_leaf[node]:
            child = self._children.get((node, tokens[last - depth]))
            if child is None:
                break
            node, depth, end = child, depth + 1, self._last[child]
        while 0 < depth < self._max_ngram and depth <= end and tokens[end - depth] == tokens[last - depth]:
            depth += 1  # a leaf stands for one place: compare that
        return Match(end, depth)

    def continuation(self, match: Match, count: int) -> list[int]:
        """The `count` tokens after the match; past the end of the text it goes on with its own first ones."""
        copied: list[int] = []
        known = len(self._tokens)
        for source in range(match.end + 1, match.end + 1 + count):
            copied.append(self._tokens[source] if source < known else copied[source - known])
        return copied

    def _insert(self, end: int) -> None:
        """The passages that end at index `end`."""
        node = 0
        for depth in range(min(self._max_ngram, end + 1)):
            if self._is_leaf[node]:
                self._push_down(node, depth)
            if node:
                self._last[node] = end
            child = self._children.get((node, self._tokens[end - depth]))
            if child is None:
                self._add(node, end, depth)
                return
            node = child
        self._last[node] = end

    def _push_down(self, node: int, depth: int) -> None:
        """Make a leaf of this depth an inner node, with its one place as the child."""
        self._is_leaf[node] = False
        if self._last[node] >= depth:
            self._add(node, self._last[node], depth)

    def _add(self, parent: int, end: int, depth: int) -> None:
        self._children[parent, self._tokens[end - depth]] = len(self._last)
        self._last.append(end)
        self._is_leaf.append(True)


class PromptLookup(Drafter):
    """Copies what followed the longest, most recent earlier passage equal to the last tokens."""

    name: ClassVar[str] = "prompt-lookup"
    Options: ClassVar[type] = PromptLookupOptions
    prior: ClassVar[Prior | None] = STATED_PRIOR

    def __init__(self, options: PromptLookupOptions, resources: DrafterResources) -> None:
        self._options = options
        self._index = NgramIndex(options.max_ngram)

    def begin(self, context: ChoiceContext) -> None:
        # The prompt is indexed by the first `propose`, after the first token, which must not wait for it.
        self._index = NgramIndex(self._options.max_ngram)

    def propose(self, ask: Ask) -> Draft:
        self._index.extend(ask.context.history)
        match = self._index.longest_match()
        if match.length < self._options.min_ngram:
            return NO_DRAFT
        copied = self._index.continuation(match, ask.budget)
        # Each right guess makes the match one longer, and longer matches are right more often.
        sure = [_sure(match.length + depth) for depth in range(len(copied))]
        return Draft(np.array(copied, np.int32), probabilities=np.array(sure, np.float32))

    def end(self) -> None:
        self._index = NgramIndex(self._options.max_ngram)


def _sure(length: int) -> float:
    """How often a match of so many tokens goes on as the last time."""
    return 1.0 / (1.0 + NOVELTY[min(length, len(NOVELTY) - 1)])

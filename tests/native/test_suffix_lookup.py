"""The drafts of SuffixLookup against brute force: passages are compared, and followers counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from guessahead._native import SuffixAutomaton, SuffixLookup

# So short that all occurrences are counted.
LONGEST = SuffixAutomaton.MAX_COUNTED - 1
TOKENS = st.integers(0, 3)
TEXTS = st.lists(TOKENS, min_size=1, max_size=LONGEST)
OTHERS = st.lists(st.lists(TOKENS, min_size=1, max_size=LONGEST // 2), max_size=3)
NOVELTY = (3.0, 3.0, 1.7, 0.9, 0.4)


def lookup(
    others: Sequence[Sequence[int]] = (), min_match: int = 1, branches: int = 2, vocab_size: int = 99
) -> SuffixLookup:
    automata = []
    for text in others:
        automata.append(SuffixAutomaton())
        automata[-1].extend(list(text))
    return SuffixLookup(
        others=automata, min_match=min_match, branches=branches, vocab_size=vocab_size, novelty=NOVELTY
    )


def match_in(known: list[int], text: list[int], before_the_end: bool) -> list[int]:
    """The longest end of `text` that stands in `known`, other than at its very end if so said."""
    last = len(known) - (1 if before_the_end else 0)
    for length in range(len(text), 0, -1):
        passage = text[len(text) - length :]
        if any(known[end - length : end] == passage for end in range(length, last + 1)):
            return passage
    return []


def ways_on(known: list[int], passage: list[int]) -> tuple[list[int], dict[int, int]]:
    """What followed the longest end of a passage that was followed by a token: (that end, token -> times).

    The likeliest first; of equals the latest, then those that came first.
    """
    for start in range(len(passage)):
        part = passage[start:]
        followers = [
            known[end] for end in range(len(part), len(known)) if known[end - len(part) : end] == part
        ]
        times = {token: followers.count(token) for token in followers if token >= 0}
        if times:
            ranked = sorted(times, key=lambda token: (-times[token], token != followers[-1]))
            return part, {token: times[token] for token in ranked}
    return [], {}


@dataclass
class Model:
    """What `guess` does, in plain words."""

    others: list[list[int]]
    min_match: int
    branches: int
    vocab_size: int
    token_ids: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    probabilities: list[float] = field(default_factory=list)

    def guess(self, history: list[int], budget: int, least: float) -> None:
        known, passage = history, match_in(history, history, before_the_end=True)
        for other in self.others:
            found = match_in(other, history, before_the_end=False)
            if len(found) > len(passage) + 1:
                known, passage = other, found
        if len(passage) < self.min_match:
            return
        open_paths: list[tuple[float, int, list[int], int, float]] = []
        node, reach, age = -1, 1.0, 0
        while len(self.token_ids) < budget:
            passage, times = ways_on(known, passage)
            weight = sum(times.values()) + len(times) * NOVELTY[min(len(passage), len(NOVELTY) - 1)]
            for token in list(times)[: self.branches]:
                chance = times[token] / weight
                if reach * chance >= least and token < self.vocab_size:
                    age += 1
                    open_paths.append((-reach * chance, age, [*passage, token], node, chance))
            if not open_paths:
                return
            best = min(open_paths)
            open_paths.remove(best)
            below, _, passage, parent, chance = best
            node, reach = len(self.token_ids), -below
            self.token_ids.append(passage[-1])
            self.parents.append(parent)
            self.probabilities.append(chance)


@given(
    text=TEXTS,
    others=OTHERS,
    branches=st.integers(1, 4),
    min_match=st.integers(1, 3),
    vocab_size=st.integers(2, 4),
    budget=st.integers(0, 12),
    least=st.sampled_from([0.04, 0.1, 0.3]),
    asked_at=st.sets(st.integers(0, LONGEST)),
)
def test_drafts_are_those_of_the_plain_model(
    text: list[int],
    others: list[list[int]],
    branches: int,
    min_match: int,
    vocab_size: int,
    budget: int,
    least: float,
    asked_at: set[int],
) -> None:
    joined = [[*first, -2, *second] for first, second in pairwise(others)]
    native = lookup(joined, min_match, branches, vocab_size)
    for end in sorted({*(each for each in asked_at if each <= len(text)), len(text)}):
        model = Model(joined, min_match, branches, vocab_size)
        model.guess(text[:end], budget, least)
        found = native.guess(np.array(text[:end], np.int32), budget, least)
        if not model.token_ids:
            assert found is None
            continue
        assert found is not None
        token_ids, parents, confidence = found
        assert token_ids.tolist() == model.token_ids
        if parents is None:
            parents = np.arange(-1, len(token_ids) - 1, dtype=np.int32)
        else:
            assert parents.tolist() != list(range(-1, len(token_ids) - 1)), "a chain needs no parents"
        assert parents.tolist() == model.parents
        assert confidence.tobytes() == np.array(model.probabilities, np.float32).tobytes()
        assert (token_ids.dtype, parents.dtype) == (np.int32, np.int32)


def test_another_text_counts_where_its_match_is_longer_by_two() -> None:
    text = [9, 1, 2, 7, 4, 5, 1, 2]
    for before, guessed in (([5], 7), ([4, 5], 8)):
        found = lookup([[*before, 1, 2, 8]]).guess(np.array(text, np.int32), 1, 0.04)
        assert found is not None
        assert found[0].tolist() == [guessed]


def test_what_is_known_already_is_not_read_again() -> None:
    native, text = lookup(), np.array([1, 2, 3, 1, 2, 3, 1], np.int32)
    first = native.guess(text, 4, 0.04)
    again = native.guess(text, 4, 0.04)
    assert first is not None
    assert again is not None
    assert [part.tolist() for part in (first[0], first[2])] == [
        part.tolist() for part in (again[0], again[2])
    ]


def test_texts_outlive_their_owner() -> None:
    native = lookup([[1, 2, 3, 4, 5]])  # nobody else holds the automaton now
    found = native.guess(np.array([1, 2, 3], np.int32), 2, 0.01)
    assert found is not None
    assert found[0].tolist() == [4, 5]


def test_refusals() -> None:
    text = np.array([1, 2, 1], np.int32)
    with pytest.raises(ValueError, match="budget"):
        lookup().guess(text, -1, 0.04)
    with pytest.raises(TypeError, match="int32"):
        lookup().guess(text.astype(np.int64), 4, 0.04)
    with pytest.raises(ValueError, match="branch"):
        lookup(branches=0)
    with pytest.raises(ValueError, match="automaton"):
        SuffixLookup(others=[None], min_match=1, branches=1, vocab_size=9, novelty=(1.0,))  # type: ignore[list-item]
    with pytest.raises(ValueError, match="novelty"):
        SuffixLookup(others=[], min_match=1, branches=1, vocab_size=9, novelty=())

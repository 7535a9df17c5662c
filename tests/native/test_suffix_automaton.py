from __future__ import annotations

from collections import Counter
from time import process_time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from guessahead._native import SuffixAutomaton, SuffixReader

# So short that all occurrences are counted.
TEXTS = st.lists(st.integers(0, 3), min_size=1, max_size=SuffixAutomaton.MAX_COUNTED - 1)


def built(text: list[int], chunk: int = 1 << 30) -> SuffixAutomaton:
    automaton = SuffixAutomaton()
    for start in range(0, len(text), chunk):
        automaton.extend(text[start : start + chunk])
    return automaton


def reader_of(automaton: SuffixAutomaton, text: list[int]) -> SuffixReader:
    reader = SuffixReader(automaton)
    reader.read(text)
    return reader


def naive_length(text: list[int], other: list[int]) -> int:
    """Of the longest end of `text` that stands in `other`."""
    for length in range(len(text), 0, -1):
        passage = text[len(text) - length :]
        if any(other[i : i + length] == passage for i in range(len(other) - length + 1)):
            return length
    return 0


def continuations(text: list[int], passage: list[int]) -> Counter[int]:
    length = len(passage)
    return Counter(text[i + length] for i in range(len(text) - length) if text[i : i + length] == passage)


@given(TEXTS, st.integers(1, 5))
def test_the_match_is_the_longest_one_that_stood_before(text: list[int], chunk: int) -> None:
    _, length = built(text, chunk).longest_match
    earlier = max(
        (n for n in range(len(text)) if continuations(text, text[len(text) - n :]) or n == 0), default=0
    )
    assert length == earlier


def likeliest_tokens(automaton: SuffixAutomaton, state: int, length: int, most: int) -> list[int]:
    return [way.token for way in automaton.ways(state, length, most).likeliest]


@given(TEXTS)
def test_ways_are_counted(text: list[int]) -> None:
    automaton = built(text)
    state, length = automaton.longest_match
    found = automaton.ways(state, length, 9)
    if length == 0:
        assert (found.num_ways, found.likeliest) == (0, [])
        return
    expected = continuations(text, text[len(text) - found.length :])
    assert {way.token: way.count for way in found.likeliest} == dict(expected)
    assert (found.num_ways, found.occurrences) == (len(expected), sum(expected.values()))
    assert [way.count for way in found.likeliest] == sorted(expected.values(), reverse=True)
    assert likeliest_tokens(automaton, state, length, 1) == [found.likeliest[0].token]


@given(TEXTS, TEXTS)
def test_another_text_is_followed(text: list[int], other: list[int]) -> None:
    reader = SuffixReader(built(text))
    assert reader.length == 0
    for end, token in enumerate(other, 1):
        reader.read([token])
        assert reader.length == naive_length(other[:end], text)
    assert reader_of(built(text), other).state == reader.state


def test_of_equal_counts_the_latest_comes_first() -> None:
    automaton = built([1, 2, 5, 1, 2, 6, 1, 2])
    assert likeliest_tokens(automaton, *automaton.longest_match, 9) == [6, 5]


def test_a_text_that_loops_goes_on_looping() -> None:
    automaton = built([1, 2, 3, 1, 2, 3, 1])
    state, length = automaton.longest_match
    walked = []
    for _ in range(9):
        found = automaton.ways(state, length, 1)
        [way] = found.likeliest
        walked.append(way.token)
        state, length = way.state, found.length + 1
    assert walked == [2, 3, 1] * 3


def leads_nowhere(automaton: SuffixAutomaton, state: int, length: int) -> None:
    found = automaton.ways(state, length, 9)
    assert (found.length, found.num_ways, found.occurrences, found.likeliest) == (0, 0, 0, [])


def test_separators_lead_nowhere() -> None:
    automaton = built([1, 2, 3, -2, 1, 2, -3, 9])
    reader = reader_of(automaton, [1, 2])
    assert (reader.length, automaton.ways(reader.state, reader.length, 9).num_ways) == (2, 1)
    reader.read([3])
    leads_nowhere(automaton, reader.state, reader.length)


def test_of_equal_counts_that_are_not_the_latest_the_first_comes_first() -> None:
    followers = list(range(10, 50))
    automaton = built([token for follower in followers for token in (1, 2, follower)] + [1, 2])
    expected = [followers[-1], *followers[:-1]]
    found = automaton.ways(*automaton.longest_match, 99)
    assert (found.length, found.num_ways, found.occurrences) == (2, 40, 40)
    assert [way.token for way in found.likeliest] == expected
    assert likeliest_tokens(automaton, *automaton.longest_match, 3) == expected[:3]


ALPHABETS = {"one token": 1, "two in turn": 2, "few": 3, "many": 30_000}


@pytest.mark.parametrize("name", ALPHABETS)
def test_a_long_text_takes_linear_space(name: str) -> None:
    length, size = 100_000, ALPHABETS[name]
    if size < 3:
        text = np.resize(np.arange(size, dtype=np.int32), length)
    else:
        text = np.random.default_rng(1).integers(0, size, length, dtype=np.int32)
    automaton = SuffixAutomaton()
    automaton.extend(text)
    assert automaton.num_tokens == length
    assert automaton.num_states <= 2 * length
    if size < 3:
        assert automaton.longest_match[1] == length - size
    state, match = automaton.longest_match
    assert likeliest_tokens(automaton, state, match, 1), "what stood before was followed by something"


def test_repetition_takes_linear_time() -> None:
    """Twenty times the text within much less than four hundred times the time."""
    spent = []
    for length in (20_000, 400_000):
        automaton, text = SuffixAutomaton(), np.full(length, 7, np.int32)
        started = process_time()
        automaton.extend(text)
        spent.append(process_time() - started)
    assert spent[1] < 100 * max(spent[0], 0.001)


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint32, np.float32, ">i4"])
def test_an_array_of_another_type_is_refused(dtype: str) -> None:
    automaton = SuffixAutomaton()
    for take in (automaton.extend, SuffixReader(automaton).read):
        with pytest.raises(TypeError, match="int32"):
            take(np.zeros(3, dtype))
    assert automaton.num_tokens == 0


@pytest.mark.parametrize("tokens", [[1.5], [2**31], ["a"], "abc", b"abc", 7, np.zeros((2, 2), np.int32)])
def test_what_is_no_list_of_tokens_is_refused(tokens: object) -> None:
    automaton = SuffixAutomaton()
    with pytest.raises(TypeError, match="token ids must be"):
        automaton.extend(tokens)  # type: ignore[arg-type]
    assert automaton.num_tokens == 0


def test_an_array_with_gaps_is_refused() -> None:
    with pytest.raises(ValueError, match="contiguous"):
        SuffixAutomaton().extend(np.arange(8, dtype=np.int32)[::2])


@pytest.mark.parametrize("state", [-1, 3])
def test_a_state_that_is_not_there(state: int) -> None:
    with pytest.raises(ValueError, match="no such state"):
        built([1, 2]).ways(state, 1, 1)


def test_no_text_at_all() -> None:
    automaton = built([])
    assert automaton.longest_match == (0, 0)
    leads_nowhere(automaton, 0, 0)
    assert reader_of(automaton, [1, 2]).length == 0

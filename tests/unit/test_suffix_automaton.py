from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from guessahead.suffix_automaton import MAX_COUNTED, START, SuffixAutomaton

TEXTS = st.lists(st.integers(0, 3), min_size=1, max_size=MAX_COUNTED - 1)


def built(text: list[int], chunk: int = 1 << 30) -> SuffixAutomaton:
    automaton = SuffixAutomaton()
    for start in range(0, len(text), chunk):
        automaton.extend(text[start : start + chunk])
    return automaton


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


@given(TEXTS)
def test_ways_are_counted(text: list[int]) -> None:
    automaton = built(text)
    state, length = automaton.longest_match
    found, num_ways, total, ways = automaton.ways(state, length, 9)
    if length == 0:
        assert (num_ways, ways) == (0, [])
        return
    expected = continuations(text, text[len(text) - found :])
    assert {token: count for token, count, _ in ways} == dict(expected)
    assert (num_ways, total) == (len(expected), sum(expected.values()))
    assert [count for _, count, _ in ways] == sorted(expected.values(), reverse=True)
    assert automaton.ways(state, length, 1)[3] == ways[:1]


@given(TEXTS, TEXTS)
def test_another_text_is_followed(text: list[int], other: list[int]) -> None:
    automaton = built(text)
    state, length = START, 0
    for end, token in enumerate(other, 1):
        state, length = automaton.step(state, length, token)
        assert length == naive_length(other[:end], text)


def test_of_equal_counts_the_latest_comes_first() -> None:
    automaton = built([1, 2, 5, 1, 2, 6, 1, 2])
    assert [token for token, _, _ in automaton.ways(*automaton.longest_match, 9)[3]] == [6, 5]


def test_a_text_that_loops_goes_on_looping() -> None:
    automaton = built([1, 2, 3, 1, 2, 3, 1])
    state, length = automaton.longest_match
    walked = []
    for _ in range(9):
        length, _, _, [(token, _, state)] = automaton.ways(state, length, 1)
        walked.append(token)
        length += 1
    assert walked == [2, 3, 1] * 3


def test_separators_lead_nowhere() -> None:
    automaton = built([1, 2, 3, -2, 1, 2, -3, 9])
    state, length = automaton.step(*automaton.step(START, 0, 1), 2)
    assert (length, automaton.ways(state, length, 9)[1]) == (2, 1)
    state, length = automaton.step(state, length, 3)
    assert automaton.ways(state, length, 9) == (0, 0, 0, [])


def test_repetition_takes_linear_time_and_space() -> None:
    automaton = built([7] * 20_000)
    assert automaton.longest_match[1] == 19_999
    assert len(automaton._links) <= 2 * 20_000

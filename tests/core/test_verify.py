from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from guessahead.core.verify import accept, cut
from guessahead.errors import ParameterError, StateError
from guessahead.types import Draft, Verdict

NONE = -1


def verdict(
    token_ids: list[int], parents: list[int] | None, chosen: list[int]
) -> tuple[list[int], list[int], int]:
    draft = Draft(np.array(token_ids, np.int32), None if parents is None else np.array(parents, np.int32))
    found = accept(draft, np.array(chosen, np.int32))
    assert found.token_ids.dtype == found.path.dtype == np.int32
    return found.path.tolist(), found.token_ids.tolist(), found.num_tested


def test_nothing_guessed() -> None:
    assert verdict([], None, [7]) == ([], [7], 0)


def test_all_right_brings_a_bonus() -> None:
    assert verdict([1, 2, 3], None, [1, 2, 3, 4]) == ([0, 1, 2], [1, 2, 3, 4], 3)


@pytest.mark.parametrize("at", range(4))
def test_a_wrong_guess_is_corrected_and_ends_the_block(at: int) -> None:
    guesses = [1, 2, 3, 4]
    chosen = [1, 2, 3, 4, 5]
    guesses[at] = 9
    chosen[at + 1 :] = [NONE] * (4 - at)
    assert verdict(guesses, None, chosen) == (list(range(at)), [*range(1, at + 1), at + 1], at + 1)


def test_choices_behind_a_wrong_guess_count_for_nothing() -> None:
    assert verdict([9, 2, 3], None, [1, 2, 3, 4]) == ([], [1], 1)


# nodes:   0: a      1: b under 0   2: c under 0   3: d (root)   4: e under 2
TREE = ([10, 11, 12, 13, 14], [-1, 0, 0, -1, 2])


def test_the_path_through_a_tree() -> None:
    assert verdict(*TREE, [10, 12, NONE, 14, NONE, 20]) == ([0, 2, 4], [10, 12, 14, 20], 3)
    assert verdict(*TREE, [13, NONE, NONE, NONE, 11, NONE]) == ([3], [13, 11], 1), "node 3 has no children"
    assert verdict(*TREE, [10, 99, NONE, NONE, NONE, NONE]) == ([0], [10, 99], 2)
    assert verdict(*TREE, [11, NONE, NONE, NONE, NONE, NONE]) == ([], [11], 1), "11 is guessed, but elsewhere"


def test_a_missing_choice_is_an_error() -> None:
    with pytest.raises(StateError, match="after draft node 0"):
        verdict([1, 2], None, [1, NONE, NONE])


def test_a_malformed_draft_is_an_error() -> None:
    with pytest.raises(ParameterError):
        verdict([1, 1], [-1, -1], [1, 2, 2])


@given(st.lists(st.integers(0, 2), max_size=8), st.lists(st.integers(0, 2), min_size=9, max_size=9))
def test_the_tokens_are_those_that_the_target_chose(guesses: list[int], chosen: list[int]) -> None:
    path, token_ids, num_tested = verdict(guesses, None, chosen[: len(guesses) + 1])
    assert token_ids == chosen[: len(path) + 1]
    assert path == list(range(len(path)))
    assert num_tested == min(len(path) + 1, len(guesses))


def test_cutting_leaves_the_last_token_pending() -> None:
    full = Verdict(np.array([0, 2, 4], np.int32), np.array([1, 2, 3, 4], np.int32), 4)
    assert cut(full, 4) is full
    short = cut(full, 2)
    assert (short.path.tolist(), short.token_ids.tolist(), short.num_tested) == ([0], [1, 2], 1)
    assert cut(full, 1).path.tolist() == []

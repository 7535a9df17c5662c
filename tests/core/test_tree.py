from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from guessahead.core import tree
from guessahead.errors import ParameterError
from guessahead.types import Draft


def draft(
    token_ids: list[int], parents: list[int] | None = None, confidence: list[float] | None = None
) -> Draft:
    return Draft(
        np.array(token_ids, np.int32),
        None if parents is None else np.array(parents, np.int32),
        None if confidence is None else np.array(confidence, np.float32),
    )


# 5 - 6 - 7
#   \ 8
# 9
BRANCHED = draft([5, 6, 8, 9, 7], [-1, 0, 0, -1, 1])


def test_a_chain_is_a_tree_without_a_list() -> None:
    chain, spelt = draft([4, 4, 4]), draft([4, 4, 4], [-1, 0, 1])
    assert tree.parents_of(chain).tolist() == [-1, 0, 1]
    assert tree.children_of(chain) == tree.children_of(spelt)
    assert tree.parents_of(draft([])).tolist() == []


def test_depths_positions_paths() -> None:
    assert tree.depths(BRANCHED).tolist() == [1, 2, 2, 1, 3]
    assert tree.positions(BRANCHED, num_committed=10).tolist() == [10, 11, 11, 10, 12]
    assert tree.path_to(BRANCHED, 4).tolist() == [0, 1, 4]
    assert tree.path_to(BRANCHED, 3).tolist() == [3]
    assert tree.path_to(BRANCHED, tree.ROOT).tolist() == []


def test_children_are_found_by_parent_and_token() -> None:
    assert tree.children_of(BRANCHED) == {(-1, 5): 0, (0, 6): 1, (0, 8): 2, (-1, 9): 3, (1, 7): 4}


@pytest.mark.parametrize(
    ("token_ids", "parents", "problem"),
    [
        ([1, 2], [-1, 1], "parent 1"),  # itself
        ([1, 2], [1, -1], "parent 1"),  # a later node
        ([1, 2], [-1, -2], "parent -2"),
        ([1, 2, 1], [-1, 0, -1], "nodes 0 and 2 are the same guess"),
        ([1, 2], [-1], "1 parents"),
    ],
)
def test_what_is_not_a_tree_is_refused(token_ids: list[int], parents: list[int], problem: str) -> None:
    with pytest.raises(ParameterError, match=problem):
        tree.children_of(draft(token_ids, parents))


def test_merging_shares_equal_beginnings() -> None:
    merged = tree.merge(
        [draft([1, 2, 3], None, [0.9, 0.2, 0.5]), draft([1, 2, 4], None, [0.5, 0.8, 0.7])], ["a", "b"], 10
    )
    assert merged.token_ids.tolist() == [1, 2, 3, 4]
    assert tree.parents_of(merged).tolist() == [-1, 0, 1, 1]
    assert merged.origins == ("a", "a", "a", "b")
    assert merged.probabilities is not None
    assert merged.probabilities.tolist() == pytest.approx([0.9, 0.8, 0.5, 0.7])


def test_merging_keeps_the_origins_of_merged_drafts() -> None:
    first = tree.merge([draft([1]), draft([2])], ["a", "b"], 4)
    assert tree.merge([first, draft([3])], ["ab", "c"], 4).origins == ("a", "b", "c")


DRAFTS = st.lists(
    st.lists(st.tuples(st.integers(0, 2), st.integers(-1, 5)), max_size=6), min_size=1, max_size=4
)


@given(DRAFTS, st.integers(0, 12))
def test_a_merged_tree_holds_the_paths_of_its_drafts(
    shapes: list[list[tuple[int, int]]], budget: int
) -> None:
    drafts = []
    for shape in shapes:
        nodes: dict[tuple[int, int], None] = {}
        for i, (token, parent) in enumerate(shape):
            nodes.setdefault((min(parent, len(nodes) - 1, i - 1), token))
        drafts.append(draft([token for _, token in nodes], [parent for parent, _ in nodes]))
    merged = tree.merge(drafts, ["x"] * len(drafts), budget)
    tree.children_of(merged)  # is a tree
    assert len(merged) <= budget

    def texts(of: Draft) -> set[tuple[int, ...]]:
        return {tuple(of.token_ids[tree.path_to(of, node)].tolist()) for node in range(len(of))}

    everything = set().union(*(texts(one) for one in drafts))
    assert texts(merged) <= everything
    assert len(merged) == len(texts(merged)) == min(budget, len(everything))

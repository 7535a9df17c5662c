"""Draft trees, as a list of parents.

The parent of node i is node parents[i], or the last committed token where parents[i] is -1. A chain is the
tree in which the parent of node i is i - 1; it needs no list (`Draft.parents` is None).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from guessahead.errors import ParameterError
from guessahead.types import Draft, Int32

ROOT = -1
"""The parent of a node that follows the last committed token."""


def parents_of(draft: Draft) -> Int32:
    """int32[n]: the parent of every node, also for a chain."""
    if draft.parents is None:
        return np.arange(-1, len(draft) - 1, dtype=np.int32)
    return draft.parents


def checked_parents(draft: Draft) -> Sequence[int]:
    """The parent of every node. Raises ParameterError if the draft is not a tree.

    A tree has one parent per node, each an earlier node or ROOT, and no token twice under one parent:
    two such nodes would be the same guess, and the path to accept would not be unique.
    """
    if draft.parents is None:
        return range(ROOT, len(draft) - 1)
    parents: list[int] = draft.parents.tolist()
    if len(parents) != len(draft):
        raise ParameterError(f"a draft of {len(draft)} tokens has {len(parents)} parents")
    guesses = list(zip(parents, draft.token_ids.tolist(), strict=True))
    for node, parent in enumerate(parents):
        if not ROOT <= parent < node:
            raise ParameterError(f"draft node {node} has parent {parent}: it must be -1 or an earlier node")
    if len(set(guesses)) < len(guesses):
        node = next(node for node, guess in enumerate(guesses) if guess in guesses[:node])
        raise ParameterError(f"draft nodes {guesses.index(guesses[node])} and {node} are the same guess")
    return parents


def children_of(draft: Draft) -> dict[tuple[int, int], int]:
    """The nodes by (parent node, token id). Raises ParameterError if the draft is not a tree."""
    guesses = zip(checked_parents(draft), draft.token_ids.tolist(), strict=True)
    return {guess: node for node, guess in enumerate(guesses)}


def depths(draft: Draft) -> Int32:
    """int32[n]: the number of nodes on the path to each node; 1 for a guess of the next token."""
    return np.array(_depths(draft), np.int32)


def height(draft: Draft) -> int:
    """The number of guesses on the longest path."""
    return len(draft) if draft.parents is None else max(_depths(draft), default=0)


def _depths(draft: Draft) -> list[int]:
    found: list[int] = []
    for parent in parents_of(draft).tolist():
        found.append(1 if parent == ROOT else found[parent] + 1)
    return found


def positions(draft: Draft, num_committed: int) -> Int32:
    """int32[n]: the position of every node; the last committed token is at num_committed - 1."""
    return (depths(draft) + (num_committed - 1)).astype(np.int32)


def draft_of(
    token_ids: list[int],
    parents: list[int] | None,
    probabilities: list[float],
    origins: list[str],
    expected: float,
) -> Draft:
    """A draft from lists; parents and expected as in `Draft`."""
    return Draft(
        np.array(token_ids, np.int32),
        None if parents is None else np.array(parents, np.int32),
        np.array(probabilities, np.float32),
        tuple(origins),
        expected=expected,
    )


def path_to(draft: Draft, node: int) -> Int32:
    """int32[depth]: the nodes from depth 1 to `node`, which is included; empty for ROOT."""
    parents = parents_of(draft)
    path = []
    while node != ROOT:
        path.append(node)
        node = int(parents[node])
    return np.array(path[::-1], np.int32)


def merge(drafts: Sequence[Draft], names: Sequence[str], budget: int) -> Draft:
    """One tree of at most `budget` nodes with the guesses of several drafts, as a trie.

    Earlier drafts take precedence: a guess that two drafts share is one node with the origin of the earlier
    one and the higher of both probabilities (1 if a drafter states none).
    """
    nodes: dict[tuple[int, int], int] = {}
    token_ids: list[int] = []
    parents: list[int] = []
    probabilities: list[float] = []
    origins: list[str] = []
    for draft, name in zip(drafts, names, strict=True):
        own_to_merged = {ROOT: ROOT}
        for node, parent in enumerate(parents_of(draft).tolist()):
            if parent not in own_to_merged:
                continue  # its parent did not fit into the budget
            key = (own_to_merged[parent], int(draft.token_ids[node]))
            probability = 1.0 if draft.probabilities is None else float(draft.probabilities[node])
            if key in nodes:
                probabilities[nodes[key]] = max(probabilities[nodes[key]], probability)
            elif len(token_ids) < budget:
                nodes[key] = len(token_ids)
                parents.append(key[0])
                token_ids.append(key[1])
                probabilities.append(probability)
                origins.append(draft.origins[node] if draft.origins else name)
            else:
                continue
            own_to_merged[node] = nodes[key]
    return Draft(
        token_ids=np.array(token_ids, np.int32),
        parents=np.array(parents, np.int32),
        probabilities=np.array(probabilities, np.float32),
        origins=tuple(origins),
    )

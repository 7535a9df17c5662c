"""Drafts built guess by guess: a tree, or a chain with siblings."""

from __future__ import annotations

import numpy as np

from guessahead.core import tree
from guessahead.types import Draft


class Tree:
    """A draft tree built level by level.

    Nodes are numbered as they are added. path_probability: that a node and its ancestors are right.
    """

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.parents: list[int] = []
        self.path_probability: list[float] = []
        self._probabilities: list[float] = []

    def add(self, parent: int, ranked: list[tuple[int, float]]) -> range:
        """Add guesses after a node (or tree.ROOT), with their probabilities; returns their nodes."""
        before = 1.0 if parent == tree.ROOT else self.path_probability[parent]
        first = len(self.tokens)
        for token, probability in ranked:
            self.tokens.append(token)
            self.parents.append(parent)
            self._probabilities.append(probability)
            self.path_probability.append(before * probability)
        return range(first, len(self.tokens))

    def draft(self, budget: int) -> Draft:
        """The most likely nodes; a parent is at least as likely as its children, and precedes them."""
        order = sorted(range(len(self.tokens)), key=lambda node: (-self.path_probability[node], node))[
            :budget
        ]
        kept = sorted(order)
        number = {node: i for i, node in enumerate(kept)}
        parents = [number.get(self.parents[node], tree.ROOT) for node in kept]
        return Draft(
            np.array([self.tokens[node] for node in kept], np.int32),
            None if parents == list(range(-1, len(kept) - 1)) else np.array(parents, np.int32),
            np.array([self._probabilities[node] for node in kept], np.float32),
        )


class Chain:
    """A chain of guesses, then as many of their siblings as the budget allows, the most likely first."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._main: list[tuple[int, float]] = []
        # - path probability, parent, token, probability
        self._siblings: list[tuple[float, int, int, float]] = []
        self._path_probability = 1.0

    @property
    def num_main(self) -> int:
        """The number of guesses in the chain."""
        return len(self._main)

    def add(self, ranked: list[tuple[int, float]]) -> None:
        """Add the next guess and its siblings, each with its probability."""
        parent = len(self._main) - 1
        before = self._path_probability
        self._siblings += [(-before * p, parent, token, p) for token, p in ranked[1:]]
        self._main.append(ranked[0])
        self._path_probability *= ranked[0][1]

    def draft(self) -> Draft:
        """The draft of all guesses."""
        beside = sorted(self._siblings)[: self._budget - len(self._main)]
        if not self._main:
            return Draft()
        tokens = [token for token, _ in self._main] + [token for _, _, token, _ in beside]
        parents = [*range(-1, len(self._main) - 1), *(parent for _, parent, _, _ in beside)]
        stated = [main[1] for main in self._main] + [sibling[3] for sibling in beside]
        return Draft(
            np.array(tokens, np.int32),
            np.array(parents, np.int32) if beside else None,
            np.array(stated, np.float32),
        )

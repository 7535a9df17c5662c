"""How a drafter that guesses one token after the other makes a draft of them."""

from __future__ import annotations

import numpy as np

from guessahead.core import tree
from guessahead.types import Draft


class Branches:
    """A tree that grows level by level.

    Nodes are numbered as they are added. reach: chance that a node and all above it are right.
    """

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.parents: list[int] = []
        self.reach: list[float] = []
        self._chances: list[float] = []

    def add(self, parent: int, ranked: list[tuple[int, float]]) -> range:
        """Guesses behind a node (tree.ROOT: the committed text), with their chances; returns their nodes."""
        before = 1.0 if parent == tree.ROOT else self.reach[parent]
        first = len(self.tokens)
        for token, chance in ranked:
            self.tokens.append(token)
            self.parents.append(parent)
            self._chances.append(chance)
            self.reach.append(before * chance)
        return range(first, len(self.tokens))

    def draft(self, budget: int) -> Draft:
        """The likeliest nodes; a parent is at least as likely as its children, and comes before them."""
        order = sorted(range(len(self.tokens)), key=lambda node: (-self.reach[node], node))[:budget]
        kept = sorted(order)
        number = {node: i for i, node in enumerate(kept)}
        parents = [number.get(self.parents[node], tree.ROOT) for node in kept]
        return Draft(
            np.array([self.tokens[node] for node in kept], np.int32),
            None if parents == list(range(-1, len(kept) - 1)) else np.array(parents, np.int32),
            np.array([self._chances[node] for node in kept], np.float32),
        )


class Grown:
    """A chain of guesses first, then their siblings as far as the budget reaches, the likeliest first."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._main: list[tuple[int, float]] = []
        self._beside: list[tuple[float, int, int, float]] = []  # -chance of the path, parent, token, chance
        self._reach = 1.0

    @property
    def num_main(self) -> int:
        """Guesses in the chain."""
        return len(self._main)

    def add(self, ranked: list[tuple[int, float]]) -> None:
        """The next guess, then its siblings, each with its chance."""
        parent = len(self._main) - 1
        self._beside += [(-self._reach * chance, parent, token, chance) for token, chance in ranked[1:]]
        self._main.append(ranked[0])
        self._reach *= ranked[0][1]

    def draft(self) -> Draft:
        """All of them."""
        beside = sorted(self._beside)[: self._budget - len(self._main)]
        if not self._main:
            return Draft()
        tokens = [token for token, _ in self._main] + [token for _, _, token, _ in beside]
        parents = [*range(-1, len(self._main) - 1), *(parent for _, parent, _, _ in beside)]
        sure = [chance for _, chance in self._main] + [chance for _, _, _, chance in beside]
        return Draft(
            np.array(tokens, np.int32),
            np.array(parents, np.int32) if beside else None,
            np.array(sure, np.float32),
        )

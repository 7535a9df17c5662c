"""Drafts built guess by guess: a chain with siblings."""

from __future__ import annotations

import numpy as np

from guessahead.types import Draft


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

"""The draft of a head, level by level in Python: what `_native.draft_of_head` does in one call.

Fakes of heads draft with it, and the native one is compared with it.
"""

from __future__ import annotations

import numpy as np

from guessahead import _native
from guessahead.core import sampling, tree
from guessahead.protocols import HeadSequence
from guessahead.types import Ask, ChoiceContext, Draft, Float32, Int32, TreeShape


def draft_of_head(
    sequence: HeadSequence,
    draft_ids: Int32,
    next_ids: Int32,
    fused: Float32,
    ask: Ask,
    shape: TreeShape,
) -> Draft:
    """See `HeadSequence.draft`. draft_ids: the target's id of each id of the head."""
    entry, state, logits = sequence.read(next_ids, fused)
    context = ask.context
    found = Tree()
    grown = _Rows(context.history[-1:], entry)
    frontier = {tree.ROOT: (state[0], logits[0])}
    level_probability = path_probability = 1.0
    for depth in range(shape.levels):
        fresh: list[int] = []
        for node, (_, row) in frontier.items():
            fresh += found.add(node, head_guesses(row, draft_ids, context, depth, shape))
        best = sorted(fresh, key=lambda node: -found.path_probability[node])[: shape.width]
        best = [node for node in best if found.tokens[node] not in context.eos_ids]
        before, level_probability = level_probability, sum(found.path_probability[node] for node in best)
        if depth + 1 == shape.levels or level_probability <= 0.0:
            break
        if ask.stop is not None:
            path_probability *= ask.stop.calibrated(level_probability / before, depth)
            if not ask.stop.goes_on(path_probability, depth + 1):
                break
        for node in best:
            grown.add(node, found.parents[node], found.tokens[node], frontier[found.parents[node]][0])
        rows, arguments = grown.arrays(best)
        states, by_row = sequence.grow(*arguments)
        frontier = {node: (states[row], by_row[row]) for node, row in zip(best, rows, strict=True)}
    return found.draft(ask.budget)


def head_guesses(
    logits: Float32, ids: Int32, context: ChoiceContext, num_above: int, shape: TreeShape
) -> list[tuple[int, float]]:
    """The most likely guesses of a draft head, each with its probability.

    ids: the target's id of each id of the head. num_above: guesses between context.history and this one.
    """
    params = context.params
    if sampling.is_greedy(params):
        best, probabilities = _native.likeliest(logits, shape.branches)
        pairs = [(int(ids[i]), probability) for i, probability in zip(best, probabilities, strict=True)]
    else:
        pairs = _native.likeliest_winners(
            logits,
            ids,
            shape.branches,
            trust=shape.noise_trust,
            temperature=params.temperature,
            top_k=params.top_k,
            top_p=params.top_p,
            min_p=params.min_p,
            seed=sampling.resolved_seed(context),
            stream=context.stream,
            position=len(context.history) + num_above,
        )
    return pairs[:1] + [pair for pair in pairs[1:] if pair[1] >= shape.least_sibling]


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


class _Rows:
    """The guesses that get children, after the last row that the head has read."""

    def __init__(self, token: Int32, entry: Float32) -> None:
        """token, entry: of that row, see `HeadSequence.grow`."""
        self._token, self._entry = int(token[0]), entry[0]
        self._nodes: dict[int, tuple[int, int, Float32]] = {}

    def add(self, node: int, parent: int, token: int, state: Float32) -> None:
        """state: the head's state that made the guess."""
        self._nodes[node] = parent, token, state

    def arrays(self, wanted: list[int]) -> tuple[list[int], tuple[Int32, Float32, Int32]]:
        """The rows of some nodes, and the arguments of `HeadSequence.grow` for them and all above them."""
        above: set[int] = set()
        for node in wanted:
            while node != tree.ROOT and node not in above:
                above.add(node)
                node = self._nodes[node][0]
        row_of = {tree.ROOT: 0}
        tokens, states, parents = [self._token], [self._entry], [-1]
        for node in sorted(above):  # parents have lower numbers
            parent, token, state = self._nodes[node]
            row_of[node] = len(tokens)
            tokens.append(token)
            states.append(state)
            parents.append(row_of[parent])
        arrays = np.array(tokens, np.int32), np.stack(states), np.array(parents, np.int32)
        return [row_of[node] for node in wanted], arrays

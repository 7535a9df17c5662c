"""Rejection sampling: guesses are accepted at random, so that only the distribution of the text is kept.

A guess x that was sampled from q is accepted with probability min(1, p(x) / q(x)), where p is the
distribution of the target after all filters. The first rejected guess is replaced by a sample from max(p - q,
0), normalised, and the guesses after it are dropped. The result is distributed as p for any q, and a guess is
accepted with probability sum of min(p, q), the maximum for any rule. (Leviathan, Kalman, Matias 2023,
algorithm 1 and theorem 3.5; Chen et al. 2023, algorithm 2.)

This holds only if every sampled guess is tested: dropping one because of its value would change the
distribution. So a sampled draft is a chain that is verified as a whole, and the decision to go on is made
before each sample. A guess that was not sampled has q = 1: it is accepted with probability p(x), else
replaced by a sample from the rest of p. Sampling from p and comparing the sample with the guess does both,
and that is what `choose` does; so it judges drafts without `distributions`, trees included.

With greedy settings nothing is sampled, and this rule is not used.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

import numpy as np

from guessahead.core import sampling
from guessahead.core.exact_math import uniforms
from guessahead.errors import StateError
from guessahead.types import NOT_ALLOWED, NOT_FINITE

if TYPE_CHECKING:
    from guessahead.protocols import PassOutput
    from guessahead.types import Acceptance, ChoiceContext, Draft, Draws, Float64, Int32


IDENTICAL: Final[Acceptance] = "identical"
REJECTION: Final[Acceptance] = "rejection"
ACCEPTANCES: Final[tuple[Acceptance, ...]] = (IDENTICAL, REJECTION)
"""The values of `acceptance`: keep the text of plain decoding, or only its distribution."""


class Use(IntEnum):
    """The purpose of a random number. Each purpose has numbers independent of the others and of `choose`."""

    GUESS = 1
    TEST = 2
    REPLACEMENT = 3
    BONUS = 4


class HashDraws:
    """The random numbers of one generation: a function of its seed, as the noise of `choose` is."""

    def __init__(self, context: ChoiceContext) -> None:
        self._seed, self._stream = sampling.resolved_seed(context), context.stream

    def pick(self, use: int, weights: Float64, start: int, depth: int) -> int:
        reached = np.cumsum(weights)
        index = int(np.searchsorted(reached, self._uniform(use, start, depth) * reached[-1], side="right"))
        # A number that rounds to the whole sum belongs to the last index with a weight above 0.
        return min(index, int(np.searchsorted(reached, reached[-1])))

    def passes(self, use: int, probability: float, start: int, depth: int) -> bool:
        return self._uniform(use, start, depth) < probability

    def _uniform(self, use: int, start: int, depth: int) -> float:
        stream = self._stream + (int(use) << 32)  # those of `choose` are below 2**32
        return float(uniforms(self._seed, stream, start, depth)[0])


class RejectionJudge:
    """The Judge for sampled drafts: rejection sampling. Other drafts are judged as `choose` does."""

    needs_all_logits = False  # a sampled draft gets all logits in any case

    def __init__(self, draws: Draws) -> None:
        self._draws = draws

    def chosen(self, draft: Draft, context: ChoiceContext, output: PassOutput, last: int) -> Int32:
        """See `Judge` in core/step.py. Raises StateError for a sampled draft that is malformed."""
        if draft.distributions is None:
            return output.chosen[last:]
        logits, token_ids = output.logits, draft.token_ids
        if draft.parents is not None or len(draft.distributions) != len(draft) or logits is None:
            raise StateError("a sampled draft must be a chain with one distribution for each guess")
        chosen = np.full(len(draft) + 1, -1, np.int32)
        start = len(context.history)
        for depth, q in enumerate(draft.distributions):
            if not np.isfinite(logits[last + depth]).all():
                chosen[depth] = NOT_FINITE
                return chosen
            p = sampling.probabilities(logits[last + depth], context, token_ids[:depth])
            if not p.any():
                chosen[depth] = NOT_ALLOWED
                return chosen
            chosen[depth] = _judge(int(token_ids[depth]), p, q, self._draws, (start, depth))
            if chosen[depth] != token_ids[depth]:
                return chosen
        if not np.isfinite(logits[last + len(draft)]).all():
            chosen[-1] = NOT_FINITE
            return chosen
        p = sampling.probabilities(logits[last + len(draft)], context, token_ids)
        chosen[-1] = self._draws.pick(Use.BONUS, p, start, len(draft)) if p.any() else NOT_ALLOWED
        return chosen


def _judge(guess: int, p: Float64, q: Float64, draws: Draws, place: tuple[int, int]) -> int:
    """The guess if it is accepted, else its replacement. p: float64[vocab], q: the same or shorter."""
    if draws.passes(Use.TEST, p[guess] / q[guess], *place):
        return guess
    rest = p.copy()
    rest[: len(q)] -= q
    rest = np.maximum(rest, 0.0)
    # If p and q are equal up to rounding, the rest may be 0; sampling from p is then right.
    return draws.pick(Use.REPLACEMENT, rest if rest.any() else p, *place)

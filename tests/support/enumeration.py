"""Every outcome of everything that is left to chance in a generation, each with its probability.

A generation asks for numbers that are uniform in (0, 1) and independent, by name. What it does depends only
on which of finitely many intervals each number falls into. So the generation is run once per combination, and
the probabilities of its texts are exact, but for rounding. A number that is asked for twice is the same
number: the second question divides what the answer to the first has left of its interval. So noise that is
used twice where it should be fresh shows in the law.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from itertools import pairwise

import numpy as np

from guessahead.core import sampling
from guessahead.core.rejection import Use
from guessahead.engines.replay import VirtualClock
from guessahead.protocols import PassOutput, Rows
from guessahead.types import ChoiceContext, Float32, Float64, SamplingParams
from tests.support.fakes import TinyEngine

Law = dict[tuple[int, ...], float]


class Outcomes:
    """One outcome of all questions at a time, until all have been seen. Serves as `rejection.Draws`."""

    def __init__(self) -> None:
        self._taken: list[
            int
        ] = []  # the answer to each question of the run, as an index of what was possible
        self._possible: list[int] = []
        self._begin()

    def _begin(self) -> None:
        self._num_asked = 0
        self._left: dict[Hashable, tuple[float, float]] = {}
        self.probability = 1.0

    def next(self) -> bool:
        """Prepare the next run; False when there is none."""
        while self._taken and self._taken[-1] + 1 == self._possible[-1]:
            self._taken.pop()
            self._possible.pop()
        if not self._taken:
            return False
        self._taken[-1] += 1
        self._begin()
        return True

    def where(self, name: Hashable, weights: Sequence[float] | Float64) -> int:
        """In which of the intervals, as wide as the weights one after the other, the number falls."""
        low, high = self._left.get(name, (0.0, 1.0))
        edges = np.concatenate([[0.0], np.cumsum(weights) / np.sum(weights)])
        edges[-1] = 1.0
        found = [
            (index, max(low, start), min(high, end))
            for index, (start, end) in enumerate(pairwise(edges))
            if min(high, end) > max(low, start)
        ]
        if self._num_asked == len(self._taken):
            self._taken.append(0)
            self._possible.append(len(found))
        index, start, end = found[self._taken[self._num_asked]]
        self._num_asked += 1
        self._left[name] = (start, end)
        self.probability *= (end - start) / (high - low)
        return index

    def pick(self, use: Use, weights: Float64, start: int, depth: int) -> int:
        return self.where((use, start, depth), weights)

    def passes(self, use: Use, chance: float, start: int, depth: int) -> bool:
        chance = min(chance, 1.0)
        return self.where((use, start, depth), [chance, 1.0 - chance]) == 0


class ChanceEngine(TinyEngine):
    """A TinyEngine whose sampled choices are outcomes (once there are any). Its passes take virtual time.

    seconds: of a one-row pass.
    """

    outcomes: Outcomes | None = None
    clock: VirtualClock
    seconds = 1.0

    def choose_one(self, logits: Float32, context: ChoiceContext, path: list[int]) -> int:
        if self.outcomes is None:
            return super().choose_one(logits, context, path)
        position = len(context.history) + len(path)
        return self.outcomes.where(("choose", position), sampling.probabilities(logits, context, path))

    def forward(self, requests: list[Rows]) -> list[PassOutput]:
        num_rows = sum(len(rows.token_ids) for rows in requests)
        self.clock.advance(self.seconds * (1.0 + 0.05 * (num_rows - 1)))
        self.calls.clear()
        return super().forward(requests)


def enumerated(outcomes: Outcomes, generate: Callable[[], tuple[int, ...]]) -> Law:
    """The law of what `generate` returns, which must ask nobody but `outcomes` for chance."""
    law: defaultdict[tuple[int, ...], float] = defaultdict(float)
    while True:
        law[generate()] += outcomes.probability
        if not outcomes.next():
            return dict(law)


def plain_law(
    engine: TinyEngine,
    prompt: tuple[int, ...],
    params: SamplingParams,
    max_tokens: int,
    eos_ids: tuple[int, ...] = (),
) -> Law:
    """The law of plain decoding, from the definition: the product of its tokens' probabilities."""
    law: Law = {}

    def extend(text: tuple[int, ...], probability: float) -> None:
        output = text[len(prompt) :]
        if len(output) == max_tokens or (output and output[-1] in eos_ids):
            law[output] = probability
            return
        choice = ChoiceContext(params, np.array(text, np.int32), len(prompt), eos_ids)
        for token, chance in enumerate(sampling.probabilities(engine.logits_after(text), choice)):
            if chance > 0.0:
                extend((*text, token), probability * float(chance))

    extend(prompt, 1.0)
    return law


def distance(one: Law, other: Law) -> float:
    """The largest difference of two laws, over all texts."""
    return max(abs(one.get(text, 0.0) - other.get(text, 0.0)) for text in {*one, *other})

"""How likely a guess is to be right, learned for each drafter from what the text turned out to be.

A drafter states a probability; what that is worth is counted in buckets of stated probability, for the first
guess and for later ones apart.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Final

from guessahead.controller.running import Mean
from guessahead.drafters.base import EDGES, MEAN_PRIOR, STATED_PRIOR, Prior

_FINE: Final = 64  # the look-up table from stated probability to bucket
_BUCKET: Final = tuple(sum(i / _FINE >= edge for edge in EDGES) - 1 for i in range(_FINE + 1))
_spread = itemgetter(*_BUCKET)  # from a value per bucket to one per entry of the look-up table

# How many observations the prior of a bucket is worth at first.
PRIOR_WEIGHT: Final = 8.0
# That of a drafter that nobody knows is its own statement.
UNKNOWN_WEIGHT: Final = 0.5
# A bucket remembers its last thirty or so guesses: text changes character within one answer.
BUCKET_MEMORY: Final = 0.97
# How often the likeliest guess for a position is right: what is known beforehand is worth so many positions,
# and the last thirty or so count most.
MEAN_WEIGHT: Final = 6.0
MEAN_MEMORY: Final = 0.97


class Track:
    """What one drafter's guesses were worth in one generation.

    mean: how often its likeliest guess for a position is right. num_scored, num_hits: positions it had
    guesses for, and those where the likeliest was right.
    """

    __slots__ = ("_buckets", "mean", "num_hits", "num_scored")

    def __init__(self, prior: Prior | None = None, mean: float = MEAN_PRIOR) -> None:
        """prior: None = not known."""
        first, later = prior or STATED_PRIOR
        weight = PRIOR_WEIGHT if prior else UNKNOWN_WEIGHT
        self._buckets = [Mean(BUCKET_MEMORY, value, weight) for value in (*first, *later)]
        self.mean = Mean(MEAN_MEMORY, mean, MEAN_WEIGHT)
        self.num_hits = self.num_scored = 0

    def probability(self, stated: float, depth: int) -> float:
        """The probability that a guess is right given that its parent is. depth: 0 = the next token."""
        return self._buckets[_index(stated, depth)].value

    def calibration(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """`probability` as tables (see `StopRule`): for the first guess, and for later ones."""
        values = [bucket.value for bucket in self._buckets]
        return _spread(values[: len(EDGES)]), _spread(values[len(EDGES) :])

    def record(self, stated: float, depth: int, hit: bool) -> None:
        """A guess whose parent was right was right, or was not."""
        self._buckets[_index(stated, depth)].learn(hit)

    def record_position(self, hit: bool) -> None:
        """The likeliest guess for a position, behind right ones, was right, or was not."""
        self.num_scored += 1
        self.num_hits += hit
        self.mean.learn(hit)


def _index(stated: float, depth: int) -> int:
    bucket = _BUCKET[int(min(max(0.0, stated), 1.0) * _FINE)]
    return bucket if depth == 0 else bucket + len(EDGES)

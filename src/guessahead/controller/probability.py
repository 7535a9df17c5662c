"""How likely is a guess to be right? Learned per drafter, online, from what the text turned out to be.

A drafter states a confidence; what that is worth is counted in buckets of confidence, for the first guess
and for deeper ones apart. On top comes one factor for how the last guesses did against what the buckets had
promised, so that a drafter that begins to fail, or to shine, is noticed within some ten guesses whatever
bucket they fall into.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Final

from guessahead.drafters.base import EDGES, MEAN_PRIOR, STATED_PRIOR, Prior

_FINE: Final = 64  # the look-up table from confidence to bucket
_BUCKET: Final = tuple(sum(i / _FINE >= edge for edge in EDGES) - 1 for i in range(_FINE + 1))
_spread = itemgetter(*_BUCKET)  # from a value per bucket to one per entry of the look-up table

# How many observations the prior of a bucket is worth at first: one that was measured, and the bare
# confidence of a drafter that nobody knows.
PRIOR_WEIGHT: Final = 10.0
UNKNOWN_WEIGHT: Final = 1.0
# A bucket remembers its last fifty or so guesses: text changes character within one answer.
BUCKET_MEMORY: Final = 0.98
# The common factor remembers a dozen guesses, and counts only where they are so many standard deviations away
# from what was promised: following every fluctuation cost 4 % of the speed on recorded answers.
RECENT_MEMORY: Final = 0.92
RECENT_SURPRISE: Final = 2.5
# Nothing is certain: a chain of sure guesses must still end somewhere.
MOST: Final = 0.985

# How many observations the mean prior of a drafter is worth.
MEAN_PRIOR_WEIGHT: Final = 3.0
# That the likeliest guess for a position is the right one, if one is: taken for granted, worth so many
# positions.
MAIN_PRIOR_WEIGHT: Final = 3.0
LONG_MEMORY: Final = 0.995  # some two hundred guesses: steady text deserves a steady estimate
SHORT_MEMORY: Final = 0.92
TURN: Final = 2.5  # standard deviations between both: then the text has turned and the long memory is wrong


class Track:
    """What one drafter's guesses were worth in one generation.

    num_hits, num_trials: positions where one of its guesses was right, and all that it had guesses for.
    """

    __slots__ = (
        "_expected",
        "_hit",
        "_long",
        "_mains",
        "_mean",
        "_of_bucket",
        "_ratio",
        "_seen",
        "_short",
        "_tried",
        "_variance",
        "num_hits",
        "num_trials",
    )

    def __init__(self, prior: Prior | None = None, mean: float = MEAN_PRIOR) -> None:
        """prior: None = the confidence itself, for want of anything better. mean: the first `mean`."""
        first, later = prior or STATED_PRIOR
        weight = UNKNOWN_WEIGHT if prior is None else PRIOR_WEIGHT
        self._of_bucket = [*first, *later]
        self._tried = [weight] * len(self._of_bucket)
        self._hit = [weight * chance for chance in self._of_bucket]
        self._expected = self._variance = self._seen = 0.0
        self._ratio = 1.0
        self._long = [MEAN_PRIOR_WEIGHT, MEAN_PRIOR_WEIGHT * mean]
        self._short = [0.0, 0.0]
        self._mains = [MAIN_PRIOR_WEIGHT, MAIN_PRIOR_WEIGHT]
        self._mean = mean
        self.num_hits = self.num_trials = 0

    @property
    def mean(self) -> float:
        """How often one of this drafter's guesses for the next position is right, whatever they will be."""
        return self._mean

    @property
    def main_mean(self) -> float:
        """The same of its likeliest guess alone, behind which it goes on."""
        return self._mean * self._mains[1] / self._mains[0]

    def chance(self, confidence: float, depth: int) -> float:
        """The chance that a guess is right given that its parent is. depth: 0 = the next token."""
        chance = self._of_bucket[_index(confidence, depth)] * self._ratio
        return chance if chance < MOST else MOST

    def calibration(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """`chance` as tables (see `StopRule`): for the first guess, and for later ones."""
        chances = [min(chance * self._ratio, MOST) for chance in self._of_bucket]
        return _spread(chances[: len(EDGES)]), _spread(chances[len(EDGES) :])

    def record(self, confidence: float, depth: int, hit: bool) -> None:
        """A guess whose parent was right was right, or was not."""
        index = _index(confidence, depth)
        promised = self._of_bucket[index]
        self._expected = self._expected * RECENT_MEMORY + promised
        self._variance = self._variance * RECENT_MEMORY + promised * (1.0 - promised)
        self._seen = self._seen * RECENT_MEMORY + hit
        off = self._seen - self._expected
        clear = off * off > RECENT_SURPRISE * RECENT_SURPRISE * (self._variance + 0.05)
        self._ratio = self._seen / self._expected if clear else 1.0
        tried = self._tried[index] = self._tried[index] * BUCKET_MEMORY + 1.0
        hits = self._hit[index] = self._hit[index] * BUCKET_MEMORY + hit
        self._of_bucket[index] = hits / tried

    def record_position(self, hit: bool, main: bool) -> None:
        """One of the guesses for a position, behind right ones, was right, or none was.

        main: the likeliest of them was.
        """
        if hit:
            mains = self._mains
            mains[0], mains[1] = mains[0] * LONG_MEMORY + 1.0, mains[1] * LONG_MEMORY + main
        self.num_trials += 1
        self.num_hits += hit
        long, short = self._long, self._short
        long[0], long[1] = long[0] * LONG_MEMORY + 1.0, long[1] * LONG_MEMORY + hit
        short[0], short[1] = short[0] * SHORT_MEMORY + 1.0, short[1] * SHORT_MEMORY + hit
        mean, now = long[1] / long[0], short[1] / short[0]
        spread = max(mean * (1.0 - mean), 0.02)
        if short[0] > 4.0 and (now - mean) ** 2 * short[0] > TURN * TURN * spread:
            long[0], long[1] = short[0], short[1]
            mean = now
        self._mean = min(mean, MOST)


def _index(confidence: float, depth: int) -> int:
    bucket = _BUCKET[int(confidence * _FINE) if 0.0 <= confidence <= 1.0 else _FINE * (confidence > 1.0)]
    return bucket if depth == 0 else bucket + len(EDGES)

"""What passes of m rows cost, learned from every pass: the time of one row, and v(m), its multiple for m."""

from __future__ import annotations

from math import log
from typing import Final

import numpy as np

from guessahead.controller.pass_curve import PassCurve

# A pass counts at most this much, as log of its time over the expected one: a stolen core is no new cost.
MAX_SURPRISE: Final = 0.3
MAX_FIRST_SURPRISE: Final = 0.7  # while this number of rows is hardly known
# Weight of one more pass: a memory of some twelve for the machine's present speed, and of some thirty for
# v(m), which hardly changes. Passes of several rows tell of the speed, too.
SPEED_WEIGHT: Final = 0.08
SPEED_WEIGHT_OF_MORE: Final = 0.05
SHAPE_WEIGHT: Final = 0.03
# What is known beforehand weighs as much as so many passes.
KNOWN_WEIGHT: Final = 4
# Passes of m rows until v(m) no longer moves v of sizes that were never seen.
SHAPING_PASSES: Final = 8
# v(m) rises by this for each row while only one row is known.
FIRST_SLOPE: Final = 0.1


class LearnedPassCosts:
    """Costs of the passes of one engine, shared by its generations.

    seconds: of a pass of one row; 0.0 before any is known. v: v[m] = time of m rows over that of one row
    (v[0] is 0.0). num_learned: passes taken in since the last writing.
    """

    __slots__ = ("_counts", "num_learned", "seconds", "v")

    def __init__(self, max_rows: int, known: PassCurve | None = None) -> None:
        """known: what was measured, here or in an earlier process."""
        self._counts = [0] * (max_rows + 1)
        self.v = [0.0] + [1.0] * max_rows
        self.seconds, self.num_learned = 0.0, 0
        if known is not None:
            self.seconds = known.seconds[1]
            for rows, v in known.v.items():
                self.v[rows], self._counts[rows] = v, KNOWN_WEIGHT
        self._interpolate()

    def learn(self, num_rows: int, seconds: float) -> None:
        """A pass of num_rows rows took so long."""
        if num_rows >= len(self.v):
            return  # a prompt
        seconds, v = max(seconds, 1e-9), self.v
        self.num_learned += 1
        self.seconds = self.seconds or seconds / v[num_rows]
        self._counts[num_rows] += 1
        most = MAX_SURPRISE if self._counts[num_rows] > SHAPING_PASSES else MAX_FIRST_SURPRISE
        surprise = max(-most, min(log(seconds / (self.seconds * v[num_rows])), most))
        weight = 1.0 / (self._counts[num_rows] + 1)
        if num_rows == 1:
            self.seconds *= 1.0 + surprise * max(weight, SPEED_WEIGHT)
            return
        self.seconds *= 1.0 + surprise * SPEED_WEIGHT_OF_MORE
        v[num_rows] = max(1.0, v[num_rows] * (1.0 + surprise * max(weight, SHAPE_WEIGHT)))
        if self._counts[num_rows] <= SHAPING_PASSES:
            self._interpolate()

    def _interpolate(self) -> None:
        """Set v of sizes that were never seen from the others; beyond them it rises as up to there."""
        seen = [1, *(m for m, passes in enumerate(self._counts) if passes and m > 1)]
        values = [self.v[m] for m in seen]
        last = seen[-1]
        slope = (values[-1] - 1.0) / (last - 1) if last > 1 else FIRST_SLOPE
        end = len(self.v) - 1
        if last < end:
            seen, values = [*seen, end], [*values, values[-1] + slope * (end - last)]
        self.v[1:] = np.interp(range(1, end + 1), seen, values).tolist()

    def curve(self) -> PassCurve:
        """The times of the sizes that were seen, to begin with another time."""
        seen = (m for m, passes in enumerate(self._counts) if passes or m == 1)
        return PassCurve({m: self.seconds * self.v[m] for m in seen})

"""What a pass of m rows costs, as measured: the curve v(m), by context length, robust against noise.

The curve starts as a guess in the shape of a roofline, is corrected by every pass, and is kept on disk
between processes (`calibration`). It only decides how much is guessed, never what comes out.
"""

from __future__ import annotations

from itertools import pairwise
from math import log
from typing import Any, Final

# The first guess of v: rows come almost free while weights stream from memory, then each costs its share.
# Between the curves of AVX2 and AVX-512 kernels on 4-bit weights, so that either side is soon found.
PRIOR_SLOPE: Final = 0.09
PRIOR_KNEE: Final = 5
PRIOR_SLOPE_BEYOND: Final = 0.16

# A pass may count at most this much (log of measured over expected): a stolen core is not a new cost.
MAX_SURPRISE: Final = 0.3
MAX_FIRST_SURPRISE: Final = 0.7  # while this number of rows is hardly known
# The speed begins as the median of so many passes (the lower one: what disturbs a pass makes it slower).
FIRST_PASSES: Final = 7
# Weight of one more pass after that: a memory of some twelve for the machine's present speed, and of some
# thirty for the shape of the curve, which does not change.
SPEED_WEIGHT: Final = 0.08
SPEED_WEIGHT_OF_MORE: Final = 0.05  # passes of several rows, once their cost is known, tell of the speed, too
SHAPE_WEIGHT: Final = 0.03
# Measurements of one number of rows until it no longer tells about others; and what the first guess of the
# shape weighs against them, in the unit of v.
SHAPING_TRIALS: Final = 8
PRIOR_TRUST: Final = 0.05


def prior(num_rows: int) -> float:
    """v(num_rows) before anything is measured."""
    beyond = max(0, num_rows - PRIOR_KNEE)
    return 1.0 + PRIOR_SLOPE * (min(num_rows, PRIOR_KNEE) - 1) + PRIOR_SLOPE_BEYOND * beyond


class Curve:
    """What passes cost at contexts of one size.

    seconds: of a one-row pass. v: v[m] = time of m rows over that of one (v[0] is 0.0, v[1] is 1.0).
    """

    __slots__ = ("_first", "counts", "num_measured", "seconds", "v")

    def __init__(self, max_rows: int, seconds: float = 0.0) -> None:
        """seconds: of a one-row pass, if something is known."""
        self.v = [0.0] + [prior(m) for m in range(1, max_rows + 1)]
        self.counts = [0] * (max_rows + 1)
        self.seconds = seconds
        self._first = [seconds] if seconds else []
        self.num_measured = 0

    def update(self, num_rows: int, seconds: float) -> None:
        """A pass of so many rows took so long."""
        seconds = max(seconds, 1e-9)
        self.num_measured += 1
        known = self.counts[num_rows] >= SHAPING_TRIALS or num_rows == 1
        beginning = len(self._first) < FIRST_PASSES
        if beginning and known:
            self._first.append(seconds / self.v[num_rows])
            self.seconds = sorted(self._first)[(len(self._first) - 1) // 2]
        elif not self.seconds:
            self.seconds = seconds / self.v[num_rows]
        most = MAX_SURPRISE if known else MAX_FIRST_SURPRISE
        surprise = max(-most, min(most, log(seconds / (self.seconds * self.v[num_rows]))))
        if known and not beginning:
            self.seconds *= 1.0 + surprise * (SPEED_WEIGHT if num_rows == 1 else SPEED_WEIGHT_OF_MORE)
        if num_rows > 1:
            self._bend(num_rows, surprise)

    def _bend(self, num_rows: int, surprise: float) -> None:
        """Correct v(num_rows), and the shape of what is unknown; v never falls."""
        v, counts = self.v, self.counts
        counts[num_rows] += 1
        count = counts[num_rows]
        v[num_rows] = max(1.0, v[num_rows] * (1.0 + surprise * max(1.0 / (count + 1), SHAPE_WEIGHT)))
        if count <= SHAPING_TRIALS:
            self._reshape()
        for m in range(num_rows - 1, 1, -1):
            if v[m] <= v[m + 1]:
                break
            v[m] = v[m + 1]
        for m in range(num_rows + 1, len(v)):
            if v[m] >= v[m - 1]:
                break
            v[m] = v[m - 1]

    def _reshape(self) -> None:
        """Rows that were never measured: the first guess, stretched as the measured ones are."""
        known = [(m, min(count, SHAPING_TRIALS)) for m, count in enumerate(self.counts) if count]
        expected = sum(weight * (prior(m) - 1.0) for m, weight in known)
        found = sum(weight * (self.v[m] - 1.0) for m, weight in known)
        stretch = (found + PRIOR_TRUST) / (expected + PRIOR_TRUST)
        for m in range(2, len(self.v)):
            if not self.counts[m]:
                self.v[m] = max(1.0 + (prior(m) - 1.0) * stretch, self.v[m - 1])

    def copy(self) -> Curve:
        """The same curve, as a beginning for other contexts."""
        other = Curve(len(self.v) - 1, self.seconds)
        other.v = list(self.v)
        return other


class PassCosts:
    """Measured costs of the passes of one engine, shared by all its generations."""

    def __init__(self, max_rows: int) -> None:
        self._max_rows = max_rows
        self._curves: dict[int, Curve] = {}

    @property
    def num_measured(self) -> int:
        """Passes that were taken in, over all context lengths."""
        return sum(curve.num_measured for curve in self._curves.values())

    def curve(self, context: int) -> Curve | None:
        """Of passes behind `context` tokens; None before the first measurement. Read it only."""
        return self._curves.get(_size_class(context)) or self._grown(context)

    def update(self, num_rows: int, context: int, seconds: float) -> Curve | None:
        """A pass of num_rows rows behind `context` tokens took so long. Returns what `curve` does now."""
        curve = self.curve(context)
        if num_rows > self._max_rows:
            return curve
        if curve is None:
            curve = self._curves[_size_class(context)] = Curve(self._max_rows)
        curve.update(num_rows, seconds)
        return curve

    def to_json(self) -> dict[str, Any]:
        """What `from_json` takes."""
        return {
            "max_rows": self._max_rows,
            "curves": {
                str(size): {"seconds": curve.seconds, "v": curve.v[1:], "counts": curve.counts[1:]}
                for size, curve in self._curves.items()
            },
        }

    @classmethod
    def from_json(cls, data: Any, max_rows: int) -> PassCosts:
        """Raises ValueError, TypeError or KeyError for anything that `to_json` did not write."""
        costs = cls(max_rows)
        if data["max_rows"] != max_rows:
            raise ValueError("measured with another number of rows")
        for size, entry in data["curves"].items():
            seconds, v, counts = float(entry["seconds"]), entry["v"], entry["counts"]
            if len(v) != max_rows or len(counts) != max_rows or min(counts) < 0 or v[0] != 1.0:
                raise ValueError("damaged")
            if not 1e-9 < seconds < 1e6 or not all(a <= b < 1e6 for a, b in pairwise(v)):
                raise ValueError("out of range")
            curve = costs._curves[int(size)] = Curve(max_rows, seconds)
            curve.v = [0.0, *map(float, v)]
            curve.counts = [0, *map(int, counts)]
        return costs

    def _grown(self, context: int) -> Curve | None:
        """The first look at a context of this size: begin with what is known of the nearest one."""
        if not self._curves:
            return None
        wanted = _size_class(context)
        nearest = min(self._curves, key=lambda size: abs(size - wanted))
        curve = self._curves[wanted] = self._curves[nearest].copy()
        return curve


def _size_class(context: int) -> int:
    """0 up to 511 tokens, 1 up to 1023, 2 up to 2047, ..."""
    return (context >> 9).bit_length()

"""What a pass of m rows costs, as measured: the curve v(m), by context length, robust against noise.

The curve starts as a guess in the shape of a roofline, is corrected by every pass, and is kept on disk
between processes (`calibration`). It only decides how much is guessed, never what comes out.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import exp, log
from typing import Any, Final

# The first guess of v: rows come almost free while weights stream from memory, then each costs its share.
# Between the curves of AVX2 and AVX-512 kernels on 4-bit weights, so that either side is soon found.
PRIOR_SLOPE: Final = 0.09
PRIOR_KNEE: Final = 5
PRIOR_SLOPE_BEYOND: Final = 0.16

# A pass may count at most this much (log of measured over expected): a stolen core is not a new cost.
MAX_SURPRISE: Final = 0.3
# Weight of one more pass: a mean at first, then a memory of some twelve passes for the machine's present
# speed, and of some thirty for the shape of the curve, which does not change.
SPEED_WEIGHT: Final = 0.08
SHAPE_WEIGHT: Final = 0.03
# What a pass of m rows says about m - 1 and m + 1, while those have no measurement of their own.
NEIGHBOUR_WEIGHT: Final = 0.5


def prior(num_rows: int) -> float:
    """v(num_rows) before anything is measured."""
    beyond = max(0, num_rows - PRIOR_KNEE)
    return 1.0 + PRIOR_SLOPE * (min(num_rows, PRIOR_KNEE) - 1) + PRIOR_SLOPE_BEYOND * beyond


class _Curve:
    """v(m) and the seconds of a one-row pass, at contexts of one size."""

    def __init__(self, max_rows: int) -> None:
        self.log_v = [0.0] + [log(prior(m)) for m in range(1, max_rows + 1)]
        self.counts = [0] * (max_rows + 1)
        self.log_seconds: float | None = None
        self.num_measured = 0
        self.table: list[float] | None = None

    def update(self, num_rows: int, seconds: float) -> None:
        measured = log(max(seconds, 1e-9))
        if self.log_seconds is None:
            self.log_seconds = measured - self.log_v[num_rows]
        surprise = measured - self.log_seconds - self.log_v[num_rows]
        surprise = max(-MAX_SURPRISE, min(MAX_SURPRISE, surprise))
        self.num_measured += 1
        self.log_seconds += surprise * max(1.0 / self.num_measured, SPEED_WEIGHT)
        if num_rows > 1:
            self._bend(num_rows, surprise)
        self.table = None

    def _bend(self, num_rows: int, surprise: float) -> None:
        """Correct v(num_rows), and its neighbours as far as they are unknown; v never falls."""
        log_v, counts = self.log_v, self.counts
        counts[num_rows] += 1
        log_v[num_rows] += surprise * max(1.0 / (counts[num_rows] + 2), SHAPE_WEIGHT)
        weight, last = NEIGHBOUR_WEIGHT, len(log_v) - 1
        for step in (1, 2):
            for other in (num_rows - step, num_rows + step):
                if 1 < other <= last and counts[other] == 0:
                    log_v[other] += surprise * weight / (counts[num_rows] + 2)
            weight *= NEIGHBOUR_WEIGHT
        log_v[num_rows] = max(log_v[num_rows], 0.0)
        for m in range(num_rows - 1, 1, -1):
            if log_v[m] <= log_v[m + 1]:
                break
            log_v[m] = log_v[m + 1]
        for m in range(num_rows + 1, last + 1):
            if log_v[m] >= log_v[m - 1]:
                break
            log_v[m] = log_v[m - 1]

    def seconds(self) -> list[float]:
        if self.table is None:
            base = self.log_seconds or 0.0
            self.table = [0.0] + [exp(base + value) for value in self.log_v[1:]]
        return self.table

    def copy(self) -> _Curve:
        other = _Curve(len(self.log_v) - 1)
        other.log_v, other.log_seconds = list(self.log_v), self.log_seconds
        return other


class PassCosts:
    """Measured seconds of the passes of one engine, shared by all its generations."""

    def __init__(self, max_rows: int) -> None:
        self._max_rows = max_rows
        self._curves: dict[int, _Curve] = {}

    @property
    def num_measured(self) -> int:
        """Passes that were taken in, over all context lengths."""
        return sum(curve.num_measured for curve in self._curves.values())

    def seconds(self, context: int) -> list[float] | None:
        """Seconds of a pass by its number of rows (entry 0 is 0.0), behind `context` tokens.

        None before the first measurement. The list is shared: do not change it.
        """
        curve = self._curves.get(_size_class(context)) or self._grown(context)
        return None if curve is None else curve.seconds()

    def update(self, num_rows: int, context: int, seconds: float) -> None:
        """A pass of num_rows rows behind `context` tokens took so long."""
        if num_rows > self._max_rows:
            return
        curve = self._curves.get(_size_class(context)) or self._grown(context)
        if curve is None:
            curve = self._curves[_size_class(context)] = _Curve(self._max_rows)
        curve.update(num_rows, seconds)

    def to_json(self) -> dict[str, Any]:
        """What `from_json` takes."""
        return {
            "max_rows": self._max_rows,
            "curves": {
                str(size): {"seconds": curve.seconds(), "counts": curve.counts}
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
            seconds, counts = entry["seconds"], entry["counts"]
            ascending = all(a <= b for a, b in pairwise(seconds))
            if len(seconds) != max_rows + 1 or len(counts) != max_rows + 1 or not ascending:
                raise ValueError("damaged")
            if not 1e-9 < seconds[1] <= seconds[-1] < 1e6 or min(counts) < 0:
                raise ValueError("out of range")
            curve = costs._curves[int(size)] = _Curve(max_rows)
            curve.log_seconds = log(seconds[1])
            curve.log_v = [0.0] + [log(value / seconds[1]) for value in seconds[1:]]
            curve.counts = [int(count) for count in counts]
        return costs

    def _grown(self, context: int) -> _Curve | None:
        """The first look at a context of this size: begin with what is known of the nearest one."""
        wanted = _size_class(context)
        nearest = min(self._known(), key=lambda size: abs(size - wanted), default=None)
        if nearest is None:
            return None
        curve = self._curves[wanted] = self._curves[nearest].copy()
        return curve

    def _known(self) -> Iterator[int]:
        return (size for size, curve in self._curves.items() if curve.log_seconds is not None)


def _size_class(context: int) -> int:
    """0 up to 511 tokens, 1 up to 1023, 2 up to 2047, ..."""
    return (context >> 9).bit_length()

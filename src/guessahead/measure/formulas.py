"""The formulas of the expected speed, from alpha, gamma and costs.

By Leviathan, Kalman and Matias (2023), a draft of gamma guesses, each right with probability alpha, gives tau
tokens per pass, and the speed is tau / (gamma * c + v(gamma + 1)) times that of plain decoding. From this
follow the best gamma, and the alpha that is required.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from guessahead.errors import ParameterError

MAX_GAMMA: Final = 63
_ALPHAS: Final = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
_PRECISION: Final = 1e-9


def predict_tau(alpha: float, gamma: int) -> float:
    """Expected tokens per step if every guess is right with probability alpha, independently.

    (1 - alpha^(gamma+1)) / (1 - alpha): Leviathan, Kalman, Matias 2023, equation 1.
    """
    if not 0.0 <= alpha <= 1.0 or gamma < 0:
        raise ParameterError(f"alpha must be in [0, 1] and gamma at least 0, not {alpha} and {gamma}")
    return float(gamma + 1) if alpha == 1.0 else (1.0 - alpha ** (gamma + 1)) / (1.0 - alpha)


def predict_speedup(alpha: float, gamma: int, c: float, v: float) -> float:
    """Expected speed over plain decoding: tau / (gamma * c + v).

    c: time of a draft pass over that of a one-row target pass. v: time of a target pass of gamma + 1 rows
    over that of one row. (Leviathan et al. 2023, theorem 3.8, has v = 1.)
    """
    if c < 0.0 or v <= 0.0:
        raise ParameterError(f"c must be at least 0 and v above 0, not {c} and {v}")
    return predict_tau(alpha, gamma) / (gamma * c + v)


class VerifyCurve:
    """v(m): the time of a pass of m rows over that of one row, by interpolation between measured points.

    v(1) is 1. Beyond the last point the curve continues with the slope of its last part; without any point
    but v(1), every pass costs the same, as the paper assumes.
    """

    def __init__(self, points: Mapping[int, float] | Iterable[tuple[int, float]] = ()) -> None:
        """points: rows -> v. Raises ParameterError for rows below 1, v not above 0, or v(1) that is not 1."""
        known = {1: 1.0} | dict(points)
        for rows, v in known.items():
            if rows < 1 or not 0.0 < v < float("inf"):
                raise ParameterError(f"a verify curve has v above 0 at 1 row or more, not {v:g} at {rows}")
        if known[1] != 1.0:
            raise ParameterError(f"v(1) is 1 by definition, not {known[1]:g}")
        self._rows = sorted(known)
        self._values = [known[rows] for rows in self._rows]

    @classmethod
    def parse(cls, text: str) -> VerifyCurve:
        """The curve of a text such as "2:1.1,5:1.4,9:2". Raises ParameterError for anything else."""
        points: dict[int, float] = {}
        for part in text.split(","):
            rows, colon, v = part.partition(":")
            try:
                if not colon or int(rows) in points:
                    raise ValueError
                points[int(rows)] = float(v)
            except ValueError:
                raise ParameterError(
                    f"{part.strip()!r} is not ROWS:V with each ROWS once (as in 2:1.1,5:1.4,9:2)"
                ) from None
        return cls(points)

    @property
    def points(self) -> dict[int, float]:
        """The points, v(1) included."""
        return dict(zip(self._rows, self._values, strict=True))

    def __call__(self, num_rows: int) -> float:
        """v(num_rows)."""
        if len(self._rows) == 1:
            return 1.0
        right = min(max(bisect_left(self._rows, num_rows), 1), len(self._rows) - 1)
        (x0, x1), (y0, y1) = self._rows[right - 1 : right + 1], self._values[right - 1 : right + 1]
        slope = (y1 - y0) / (x1 - x0)
        if num_rows > x1:
            slope = max(slope, 0.0)  # a curve that falls at its end is noise, and would become negative
        return y1 + slope * (num_rows - x1)


@dataclass(frozen=True, slots=True)
class Costs:
    """The costs of guessing on a machine. c: time of a guess, v: of a pass of m rows; in one-row passes."""

    c: float = 0.0
    v: VerifyCurve = field(default_factory=VerifyCurve)

    def speedup(self, alpha: float, gamma: int) -> float:
        """Expected speed over plain decoding; gamma 0 is plain decoding."""
        return predict_speedup(alpha, gamma, self.c, self.v(gamma + 1))


@dataclass(frozen=True, slots=True)
class Forecast:
    """The expected speed. break_even: the smallest alpha at which this gamma is not slower, or None."""

    alpha: float
    gamma: int
    tau: float
    speedup: float
    break_even: float | None


def forecast(alpha: float, gamma: int, costs: Costs) -> Forecast:
    """The forecast. Raises ParameterError for alpha outside [0, 1] or a negative gamma or c."""
    return Forecast(
        alpha=alpha,
        gamma=gamma,
        tau=predict_tau(alpha, gamma),
        speedup=costs.speedup(alpha, gamma),
        break_even=break_even(gamma, costs),
    )


def best_gamma(alpha: float, costs: Costs, max_gamma: int = MAX_GAMMA) -> int:
    """The gamma with the highest expected speed, the smallest such one; 0 if guessing cannot pay."""
    return max(range(max_gamma + 1), key=lambda gamma: (costs.speedup(alpha, gamma), -gamma))


def break_even(gamma: int, costs: Costs) -> float | None:
    """The smallest alpha at which `gamma` guesses are not slower than none; None if even 1 is not enough.

    The speed rises with alpha, so bisection finds it.
    """
    if costs.speedup(1.0, gamma) < 1.0:
        return None
    low, high = 0.0, 1.0
    if costs.speedup(low, gamma) >= 1.0:
        return low
    while high - low > _PRECISION:
        middle = (low + high) / 2
        low, high = (low, middle) if costs.speedup(middle, gamma) >= 1.0 else (middle, high)
    return high


@dataclass(frozen=True, slots=True)
class Grid:
    """Expected speeds: speedups[i][j] belongs to gammas[i] and alphas[j]."""

    gammas: tuple[int, ...]
    alphas: tuple[float, ...]
    speedups: tuple[tuple[float, ...], ...]


def grid(costs: Costs, gammas: Sequence[int], alphas: Sequence[float] = _ALPHAS) -> Grid:
    """The speeds over gamma and alpha."""
    rows = tuple(tuple(costs.speedup(alpha, gamma) for alpha in alphas) for gamma in gammas)
    return Grid(tuple(gammas), tuple(alphas), rows)


def rising(curve: VerifyCurve) -> bool:
    """Whether v never falls; if it does, the measurement is mostly noise."""
    return all(low <= high for low, high in pairwise(curve.points.values()))

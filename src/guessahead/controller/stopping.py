"""When a drafter that pays for every guess should stop, as data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from guessahead.types import StopRule

if TYPE_CHECKING:
    from guessahead.controller.pass_costs import Curve
    from guessahead.controller.probability import Track


def stop_rule(track: Track, cap: int, each: float, price: float, curve: Curve) -> StopRule:
    """The rule that stops a chain where no further guesses are expected to gain more than they cost.

    After n guesses whose path probability is P, guesses up to the k-th gain P * mean * (1 + main + ...)
    tokens and cost their drafting and rows, so the smallest P that pays for any k is known beforehand.
    """
    mean, main = track.mean, track.main_mean
    v, plain = curve.v, curve.seconds
    limit = min(cap, len(v) - 2)
    least = [0.0] if cap > 0 else []
    for count in range(1, limit):
        lowest, total, share = float("inf"), 0.0, 1.0
        for k in range(count + 1, limit + 1):
            total += share * mean
            share *= main
            cost = price * ((k - count) * each + plain * (v[k + 1] - v[count + 1]))
            if total > 0.0:
                lowest = min(lowest, cost / total)
        least.append(lowest)
    return StopRule(tuple(least), track.calibration())


def best_chain(track: Track, limit: int, each: float, price: float, curve: Curve) -> float:
    """The most tokens that a chain of guesses is expected to gain."""
    mean, main = track.mean, track.main_mean
    v, plain = curve.v, curve.seconds
    probability, best, total = 1.0, 0.0, 0.0
    for k in range(1, min(limit, len(v) - 2) + 1):
        total += probability * mean
        probability *= main
        best = max(best, total - price * (k * each + plain * (v[k + 1] - v[1])))
    return best

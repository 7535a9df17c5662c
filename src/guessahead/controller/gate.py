"""When a drafter that pays for every guess should stop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from guessahead.drafters.base import Gate

if TYPE_CHECKING:
    from guessahead.controller.pass_costs import Curve
    from guessahead.controller.probability import Track


class ChainGate(Gate):
    """Tells a drafter that pays per guess when to stop."""

    def __init__(self, track: Track, cap: int, each: float, price: float, curve: Curve) -> None:
        self._track, self._cap, self._each = track, cap, each
        self._price, self._curve = price, curve
        self._reach, self._count = 1.0, 0

    def more(self, confidence: float) -> bool:
        self._reach *= self._track.chance(confidence, self._count)
        self._count += 1
        if self._count >= self._cap:
            return False
        gain = best_chain(
            self._reach, self._track, self._count, self._cap, self._each, self._price, self._curve
        )
        return gain > 0.0


def best_chain(
    reach: float, track: Track, count: int, limit: int, each: float, price: float, curve: Curve
) -> float:
    """The most tokens that further guesses can gain, after `count` that are right with chance `reach`."""
    mean, main = track.mean, track.main_mean
    best = total = 0.0
    v, plain = curve.v, curve.seconds
    limit = min(limit, len(v) - 2)
    for k in range(count + 1, limit + 1):
        total += reach * mean
        reach *= main
        value = total - price * ((k - count) * each + plain * (v[k + 1] - v[count + 1]))
        if value > best:
            best = value
    return best

"""What was promised, and what it brought: the measured correction of every estimate."""

from __future__ import annotations

from typing import Final

# The last thirty or so are held against their promises; the promises themselves count as so many that were
# kept.
MEMORY: Final = 0.97
TRUST: Final = 20.0
# No single one counts for more tokens than this, either way: a core that was stolen says nothing.
MOST: Final = 1.5


class Surplus:
    """Tokens that something brings on average beyond what was promised, all that it costs deducted."""

    __slots__ = ("_num", "_total", "mean")

    def __init__(self) -> None:
        self._total = self._num = 0.0
        self.mean = 0.0

    def learn(self, promised: float, brought: float) -> None:
        """Once more."""
        self._total = self._total * MEMORY + max(-MOST, min(brought - promised, MOST))
        self._num = self._num * MEMORY + 1.0
        self.mean = self._total / (self._num + TRUST)

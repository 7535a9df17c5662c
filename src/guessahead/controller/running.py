"""Running means."""

from __future__ import annotations


class Mean:
    """A mean in which each new value takes away from the weight of the older ones.

    memory: 1 - 1 / n makes the last n values count most. weight: of all values, in values.
    """

    __slots__ = ("_memory", "_total", "value", "weight")

    def __init__(self, memory: float, value: float = 0.0, weight: float = 0.0) -> None:
        """weight: of the first value, in values learned; 0.0 = the next one replaces it."""
        self._memory, self._total, self.weight = memory, value * weight, weight
        self.value = value

    def learn(self, value: float) -> None:
        self._total = self._total * self._memory + value
        self.weight = self.weight * self._memory + 1.0
        self.value = self._total / self.weight

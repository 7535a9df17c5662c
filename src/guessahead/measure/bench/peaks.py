"""Peak rates of the machine, measured in the same run, and the minimum time of work by the roofline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

import guessahead._native as _native

UNITS: Final = ("int8", "f32")


@dataclass(frozen=True, slots=True)
class Peaks:
    """Bytes read per second, and multiply-adds per second with int8 and with f32 activations; all threads."""

    read_bandwidth: float
    int8: float
    f32: float

    def to_dict(self) -> dict[str, float]:
        """Ready for JSON, in 1e9 bytes or multiply-adds per second."""
        return {
            "read_gb_per_s": self.read_bandwidth / 1e9,
            "int8_gmac_per_s": self.int8 / 1e9,
            "f32_gmac_per_s": self.f32 / 1e9,
        }

    def least_seconds(self, work: Work) -> float:
        """The roofline: the longer of the times for all bytes and for all multiply-adds."""
        computing = work.int8_macs / self.int8 + work.f32_macs / self.f32
        return max(work.num_bytes / self.read_bandwidth, computing)


@dataclass(frozen=True, slots=True)
class Work:
    """The minimum work of a pass or a product. macs: multiply-adds."""

    num_bytes: float = 0.0
    int8_macs: float = 0.0
    f32_macs: float = 0.0

    def __add__(self, other: Work) -> Work:
        return Work(
            self.num_bytes + other.num_bytes,
            self.int8_macs + other.int8_macs,
            self.f32_macs + other.f32_macs,
        )


class PeakMeter:
    """Measures peaks between the other measurements, under the same conditions."""

    def __init__(self, pool: _native.Pool, isa: str) -> None:
        bandwidth: Callable[[], float] = lambda: _native.read_bandwidth(pool)  # noqa: E731
        self._meters = [bandwidth, *((lambda unit=unit: _native.peak(pool, isa, unit)) for unit in UNITS)]
        self._found: list[list[float]] = [[] for _ in self._meters]

    def measure(self) -> None:
        """Take one more sample of each."""
        for found, meter in zip(self._found, self._meters, strict=True):
            found.append(meter())

    @property
    def peaks(self) -> Peaks:
        """The medians of the samples; at least one is required."""
        return Peaks(*map(median, self._found))

    def to_dict(self) -> dict[str, Any]:
        return self.peaks.to_dict() | {"num_samples": len(self._found[0])}

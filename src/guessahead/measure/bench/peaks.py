"""Peak rates of the machine, measured in the same run, and the minimum time of work by the roofline."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

import guessahead._native as _native
from guessahead.checkpoints.gguf import GGUFFile
from guessahead.engines.native import NativeEngine
from guessahead.engines.native.architectures import ARCHITECTURES
from guessahead.engines.native.checkpoint import Checkpoint

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


@dataclass(frozen=True, slots=True)
class PassFloor:
    """The minimum work of a pass: bytes to read and multiply-adds, from the model's file.

    weights: per pass (bytes) and per row (multiply-adds). attention: per cached position and row
    (multiply-adds); the cache's bytes are those that the engine allocates.
    """

    num_weight_bytes: int
    int8_macs: int
    f32_macs: int
    attention_macs: int

    @classmethod
    def of(cls, path: Path, engine: NativeEngine, *, int8: bool) -> PassFloor:
        """int8: quantised weights meet int8 activations."""
        with GGUFFile.open(path) as file:
            config = Checkpoint(file, tuple(ARCHITECTURES)).config
            untied = "output.weight" in file.tensors
            macs = {True: 0, False: 0}
            for name, tensor in file.tensors.items():
                if len(tensor.shape) == 2 and not (untied and name == "token_embd.weight"):
                    macs[int8 and tensor.type.block_size > 1] += math.prod(tensor.shape)
        attention = 2 * config.num_layers * config.num_heads * config.head_dim
        return cls(engine.info.bytes_per_pass, macs[True], macs[False], attention)

    def work(self, num_rows: int, num_positions: int, cache_bytes: float) -> Work:
        """The work of one pass of num_rows over a cache of num_positions and cache_bytes."""
        f32 = num_rows * (self.f32_macs + self.attention_macs * num_positions)
        return Work(self.num_weight_bytes + cache_bytes, num_rows * self.int8_macs, f32)


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

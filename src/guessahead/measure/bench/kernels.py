"""`guessahead bench kernels`: products of one matrix and m rows, with weights read from memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

import numpy as np

import guessahead._native as _native
from guessahead.checkpoints.gguf import GGMLType, quantize
from guessahead.errors import ParameterError
from guessahead.measure.bench.peaks import PeakMeter, Peaks, Work
from guessahead.types import Float32

_SAMPLES_PER_ROUND: Final = 4
_DISTINCT_OUTPUTS: Final = 64  # different rows of weights; quantising all of a large matrix takes seconds


@dataclass(frozen=True, slots=True)
class Case:
    """A matrix of n outputs by k inputs in one format."""

    format: str
    k: int
    n: int

    @property
    def int8(self) -> bool:
        return GGMLType[self.format].block_size > 1

    @property
    def activations(self) -> str:
        return "int8" if self.int8 else "f32"

    def pack(self, pool: _native.Pool) -> _native.Matrix:
        """A matrix of random weights."""
        num_distinct = min(self.n, _DISTINCT_OUTPUTS)
        values = np.random.default_rng(0).standard_normal((num_distinct, self.k), np.float32)
        encoded = quantize(values / np.float32(np.sqrt(self.k)), GGMLType[self.format])
        data = encoded.reshape(num_distinct, -1)[np.arange(self.n) % num_distinct].reshape(-1)
        return _native.Matrix.pack(pool, self.format, self.n, self.k, data)


@dataclass(frozen=True, slots=True)
class Timing:
    """One product. seconds, seconds_of_one_row: medians. exact: see `_bit_identical`."""

    case: Case
    num_bytes: int
    num_rows: int
    seconds: float
    seconds_of_one_row: float
    exact: bool

    def to_dict(self, peaks: Peaks) -> dict[str, Any]:
        """A row of the JSON document (benchmarks/README.md describes them)."""
        case = self.case
        macs = float(case.k * case.n * self.num_rows)
        work = Work(self.num_bytes, *((macs, 0.0) if case.int8 else (0.0, macs)))
        return {
            "format": case.format,
            "activations": case.activations,
            "k": case.k,
            "n": case.n,
            "rows": self.num_rows,
            "ms": self.seconds * 1e3,
            "ratio_to_1": self.seconds / self.seconds_of_one_row,
            "gb_per_s": self.num_bytes / self.seconds / 1e9,
            "gmac_per_s": macs / self.seconds / 1e9,
            "roofline_ms": peaks.least_seconds(work) * 1e3,
            "bit_identical": self.exact,
        }


def cases(formats: Sequence[str], shapes: Sequence[tuple[int, int]]) -> tuple[list[Case], list[Case]]:
    """The possible pairs, and the impossible ones (k is not a multiple of the format's block)."""
    for name in formats:
        if name not in _native.FORMATS:
            raise ParameterError(f"there are no kernels for {name!r}; known: {', '.join(_native.FORMATS)}")
    every = [Case(name, k, n) for name in formats for k, n in shapes]
    fitting = [case for case in every if case.k % GGMLType[case.format].block_size == 0]
    return fitting, [case for case in every if case not in fitting]


def bench_kernels(
    pool: _native.Pool,
    isa: str,
    *,
    formats: Sequence[str],
    shapes: Sequence[tuple[int, int]],
    rows: Sequence[int],
    num_rounds: int,
    progress: Callable[[str], None],
) -> dict[str, Any]:
    """The document, without provenance. The peaks are measured before, between and after the products."""
    meter, found = PeakMeter(pool, isa), []
    possible, skipped = cases(formats, shapes)
    rows = sorted({1, *rows})
    if rows[0] < 1:
        raise ParameterError("rows must be at least 1")
    meter.measure()
    for index, case in enumerate(possible):
        progress(f"{index + 1}/{len(possible)} {case.format} {case.k}x{case.n}")
        matrix = case.pack(pool)
        seconds = _time(case, matrix, pool, isa, rows, num_rounds)
        exact = _bit_identical(case, matrix, pool, isa, rows)
        found += [Timing(case, matrix.num_bytes, m, seconds[m], seconds[1], exact[m]) for m in rows]
        if index == len(possible) // 2:
            meter.measure()
    meter.measure()
    return {
        "benchmark": "kernels",
        "num_rounds": num_rounds,
        "peaks": meter.to_dict(),
        "rows": [timing.to_dict(meter.peaks) for timing in found],
        "skipped": [{"format": case.format, "k": case.k, "n": case.n} for case in skipped],
    }


def _time(
    case: Case, matrix: _native.Matrix, pool: _native.Pool, isa: str, rows: Sequence[int], num_rounds: int
) -> dict[int, float]:
    """Median seconds by number of rows, measured alternately."""
    samples: dict[int, list[float]] = {m: [] for m in rows}
    x = _activations(case, rows[-1])
    for _ in range(num_rounds):
        for m in rows:
            samples[m] += matrix.time_matmul(pool, x[:m], isa, case.int8, _SAMPLES_PER_ROUND)
    return {m: median(found) for m, found in samples.items()}


def _bit_identical(
    case: Case, matrix: _native.Matrix, pool: _native.Pool, isa: str, rows: Sequence[int]
) -> dict[int, bool]:
    """Whether each row has the same bits as alone and in the scalar kernels, by number of rows."""
    x = _activations(case, rows[-1])
    alone = np.concatenate([matrix.matmul(pool, x[i : i + 1], isa, case.int8) for i in range(len(x))])
    twin = matrix.matmul(pool, x, "scalar", case.int8)
    found = {}
    for m in rows:
        bits = matrix.matmul(pool, x[:m], isa, case.int8).view(np.uint32)
        found[m] = all(np.array_equal(bits, other[:m].view(np.uint32)) for other in (alone, twin))
    return found


def _activations(case: Case, num_rows: int) -> Float32:
    return np.random.default_rng(1).standard_normal((num_rows, case.k), np.float32)

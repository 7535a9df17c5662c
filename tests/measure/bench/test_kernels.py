"""`guessahead bench kernels`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from guessahead import _native
from guessahead.measure.bench.kernels import bench_kernels
from guessahead.types import Float32
from tests.measure.bench.conftest import run

SECONDS = 1e-3


class Matrix:
    """Wraps a native matrix: a row takes a millisecond, so that every derived figure is known."""

    def __init__(self, native: _native.Matrix) -> None:
        self._native = native

    @staticmethod
    def pack(*arguments: Any) -> Matrix:
        return Matrix(_NATIVE.pack(*arguments))

    @property
    def num_bytes(self) -> int:
        return self._native.num_bytes

    def matmul(self, pool: _native.Pool, x: Float32, isa: str, int8: bool) -> Float32:
        return self._native.matmul(pool, x, isa, int8)

    def time_matmul(
        self, pool: _native.Pool, x: Float32, isa: str, int8: bool, repeats: int
    ) -> Sequence[float]:
        return [SECONDS * len(x)] * repeats


class WrongMatrix(Matrix):
    """A fault: three rows together give other bits than one by one."""

    @staticmethod
    def pack(*arguments: Any) -> Matrix:
        return WrongMatrix(_NATIVE.pack(*arguments))

    def matmul(self, pool: _native.Pool, x: Float32, isa: str, int8: bool) -> Float32:
        found = super().matmul(pool, x, isa, int8)
        return -found if len(x) == 3 and isa != "scalar" else found


_NATIVE = _native.Matrix
ARGUMENTS = ("--shapes", "256x48,64x16", "--rows", "2,3", "--repeat", "1")


@pytest.fixture(autouse=True)
def _known_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_native, "Matrix", Matrix)


def test_figures() -> None:
    result = run("bench", "kernels", "--formats", "Q4_1,F32", *ARGUMENTS)
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    found = [(row["format"], row["activations"], row["k"], row["n"], row["rows"]) for row in document["rows"]]
    assert found == [
        (name, activations, k, n, rows)
        for name, activations in (("Q4_1", "int8"), ("F32", "f32"))
        for k, n in ((256, 48), (64, 16))
        for rows in (1, 2, 3)
    ]
    row = document["rows"][8]  # F32, 256 x 48, three rows
    assert (row["ms"], row["ratio_to_1"]) == (pytest.approx(3.0), pytest.approx(3.0))
    assert row["gmac_per_s"] == pytest.approx(256 * 48 / 1e-3 / 1e9)
    assert row["gb_per_s"] == pytest.approx(4 * 256 * 48 / 3e-3 / 1e9)
    least = max(4 * 256 * 48 / 20e9, 3 * 256 * 48 / 100e9)
    assert row["roofline_ms"] == pytest.approx(least * 1e3)
    assert all(row["bit_identical"] for row in document["rows"])


def test_what_a_format_cannot_hold_is_named() -> None:
    result = run("bench", "kernels", "--formats", "Q6_K", *ARGUMENTS)
    document = json.loads(result.stdout)
    assert document["skipped"] == [{"format": "Q6_K", "k": 64, "n": 16}]
    assert {row["k"] for row in document["rows"]} == {256}
    assert "left out: Q6_K 64x16" in result.stderr


def test_rows_that_influence_each_other_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_native, "Matrix", WrongMatrix)
    result = run("bench", "kernels", "--formats", "Q8_0", *ARGUMENTS)
    assert result.exit_code == 1
    exact = {row["rows"]: row["bit_identical"] for row in json.loads(result.stdout)["rows"]}
    assert exact == {1: True, 2: True, 3: False}
    assert "DIFFERENT" in result.stderr


def test_real_times_are_positive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_native, "Matrix", _NATIVE)
    document = bench_kernels(
        _native.Pool(2),
        _native.isa(),
        formats=["Q4_1"],
        shapes=[(256, 2048)],
        rows=[1],
        num_rounds=1,
        progress=lambda line: None,
    )
    [row] = document["rows"]
    assert 0 < row["ms"] < 1e3
    assert row["bit_identical"] is True


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--formats", "IQ3_S"), "no kernels for 'IQ3_S'"),
        (("--shapes", "256"), "not a list of shapes"),
        (("--shapes", "0x8"), "not a list of shapes"),
        (("--isa", "sse9"), "sse9"),
    ],
)
def test_what_cannot_be_is_refused(arguments: tuple[str, ...], words: str) -> None:
    result = run("bench", "kernels", *arguments)
    assert result.exit_code == 2
    assert words in result.stderr

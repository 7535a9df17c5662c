from __future__ import annotations

import json
import random
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from guessahead.controller import store as calibration
from guessahead.controller.pass_costs import Curve, PassCosts, prior
from tests.support.fakes import TinyEngine

TRUE_V = [0.0, 1.0, 1.08, 1.2, 1.32, 1.57, 1.77, 2.0, 2.2]


def measured(num_passes: int, noise: float = 0.0, stolen: float = 0.0, seconds: float = 0.004) -> Curve:
    """A curve that saw so many passes. noise: relative; stolen: how often a pass takes five times as long."""
    dice, costs = random.Random(1), PassCosts(16)
    for _ in range(num_passes):
        rows = dice.choice([1, 1, 2, 3, 5, 8])
        factor = (5.0 if dice.random() < stolen else 1.0) * (1.0 + noise * (dice.random() - 0.5))
        costs.update(rows, 100, seconds * TRUE_V[rows] * factor)
    curve = costs.curve(100)
    assert curve is not None
    return curve


@pytest.mark.parametrize(("noise", "stolen"), [(0.0, 0.0), (0.2, 0.0), (0.1, 0.05)])
def test_the_curve_is_found(noise: float, stolen: float) -> None:
    curve = measured(400, noise, stolen)
    for rows in (2, 3, 5, 8):
        assert curve.v[rows] == pytest.approx(TRUE_V[rows], rel=0.08)
    assert curve.seconds == pytest.approx(0.004, rel=0.12)


def test_it_never_falls_and_starts_at_one() -> None:
    for num_passes in range(0, 200, 7):
        curve = measured(num_passes, 0.5, 0.1) if num_passes else Curve(16)
        assert curve.v[1] == 1.0
        assert all(a <= b for a, b in pairwise(curve.v))


def test_rows_without_a_measurement_follow_the_others() -> None:
    """Four rows that cost nothing make it likely that sixteen cost little."""
    costs = PassCosts(16)
    for _ in range(8):
        costs.update(1, 0, 1.0)
        costs.update(4, 0, 1.0)
    curve = costs.curve(0)
    assert curve is not None
    assert curve.v[16] < 1.0 + 0.5 * (prior(16) - 1.0)


def test_a_slower_machine_is_followed_without_bending_the_curve() -> None:
    costs = PassCosts(8)
    for factor in (1.0, 1.6):
        for _ in range(60):
            for rows in (1, 4):
                costs.update(rows, 0, 0.01 * factor * TRUE_V[rows])
    curve = costs.curve(0)
    assert curve is not None
    assert curve.seconds == pytest.approx(0.016, rel=0.03)
    assert curve.v[4] == pytest.approx(TRUE_V[4], rel=0.05)


def test_long_contexts_have_their_own_curve_and_begin_with_the_nearest() -> None:
    costs = PassCosts(8)
    assert costs.curve(0) is None
    costs.update(1, 100, 1.0)
    far = costs.curve(4000)
    assert far is not None
    assert far.seconds == 1.0
    for _ in range(3):
        costs.update(1, 4000, 2.0)
    near = costs.curve(100)
    assert near is not None
    assert near.seconds == 1.0 < far.seconds


def test_passes_of_more_rows_than_the_engine_takes_are_prompts() -> None:
    costs = PassCosts(8)
    costs.update(9, 0, 1.0)
    assert costs.num_measured == 0


class Named(TinyEngine):
    """An engine that says what its pass times depend on."""

    def __init__(self, vocab_size: int = 24, cost_key: str = "test 2 int8") -> None:
        super().__init__(vocab_size)
        self.info = replace(self.info, cost_key=cost_key)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GUESSAHEAD_CACHE", str(tmp_path))
    return tmp_path / "costs"


def learned() -> Any:
    engine = Named()
    costs = calibration.costs_of(engine)
    for _ in range(200):
        costs.update(1, 0, 0.5)
    calibration.keep(engine)
    return engine


def test_costs_outlive_the_process(cache: Path) -> None:
    engine = learned()
    assert calibration.costs_of(engine) is calibration.costs_of(engine)
    [path] = cache.iterdir()
    again = calibration.costs_of(Named()).curve(0)
    assert again is not None
    assert again.seconds == pytest.approx(0.5)
    assert json.loads(path.read_text())["max_rows"] == 64


def test_another_model_has_another_file(cache: Path) -> None:
    learned()
    assert calibration.costs_of(Named(vocab_size=9)).curve(0) is not None
    other = Named(cost_key="test 1 int8")
    assert calibration.costs_of(other).curve(0) is None


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "[]",
        "{}",
        '{"max_rows": 64, "curves": {"0": {"seconds": -1}}}',
        '{"max_rows": 64, "curves": []}',
        '{"max_rows": 64, "curves": {"x": 3}}',
        "[" * 5000,
    ],
)
def test_a_damaged_file_does_not_matter(cache: Path, damage: str) -> None:
    learned()
    [path] = cache.iterdir()
    path.write_text(damage)
    assert calibration.costs_of(Named()).curve(0) is None


def test_a_falling_or_absurd_curve_is_refused(cache: Path) -> None:
    learned()
    [path] = cache.iterdir()
    good = json.loads(path.read_text())
    for change in ({"v": [2.0] * 64}, {"v": [1.0, 3.0, 2.0] + [3.0] * 61}, {"seconds": float("nan")}):
        bad = json.loads(json.dumps(good))
        bad["curves"]["0"] |= change
        path.write_text(json.dumps(bad))
        assert calibration.costs_of(Named()).curve(0) is None


def test_an_unwritable_cache_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GUESSAHEAD_CACHE", str(tmp_path / "file"))
    assert calibration.costs_of(learned()).curve(0) is not None


def test_an_engine_that_says_nothing_leaves_nothing(cache: Path) -> None:
    engine: Any = TinyEngine()
    for _ in range(500):
        calibration.costs_of(engine).update(1, 0, 1.0)
    calibration.keep(engine)
    assert not cache.exists()

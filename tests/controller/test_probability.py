from __future__ import annotations

import random

import pytest

from guessahead.controller.probability import STATED_PRIOR, Track
from guessahead.types import StopRule


def test_a_probability_is_learned_per_stated_one_and_depth() -> None:
    track, dice = Track(STATED_PRIOR), random.Random(0)
    for _ in range(600):
        track.record(0.9, 0, dice.random() < 0.5)
        track.record(0.9, 2, dice.random() < 0.9)
        track.record(0.2, 0, dice.random() < 0.2)
    assert track.probability(0.9, 0) == pytest.approx(0.5, abs=0.2)
    assert track.probability(0.9, 5) == pytest.approx(0.9, abs=0.12)
    assert track.probability(0.2, 0) == pytest.approx(0.2, abs=0.15)


def test_the_calibration_says_the_same_as_data() -> None:
    track, dice = Track(STATED_PRIOR), random.Random(0)
    for _ in range(200):
        track.record(dice.random(), dice.randrange(3), dice.random() < 0.3)
    rule = StopRule((), track.calibration())
    for stated in (0.0, 0.149, 0.15, 0.5, 0.959, 0.97, 1.0):
        for depth in (0, 1, 4):
            assert rule.calibrated(stated, depth) == track.probability(stated, depth)


def test_a_liar_is_found_out_within_ten_guesses() -> None:
    track = Track()
    for _ in range(10):
        track.record(0.99, 0, False)
    assert track.probability(0.99, 0) < 0.15


def test_a_measured_prior_is_not_thrown_over_by_a_few_misses() -> None:
    track = Track(STATED_PRIOR)
    before = track.probability(0.75, 0)
    track.record(0.75, 0, False)
    assert track.probability(0.75, 0) > 0.85 * before


@pytest.mark.parametrize("right", [0.3, 0.6, 0.9])
def test_the_mean_is_steady_on_steady_text(right: float) -> None:
    dice, track, seen = random.Random(3), Track(), []
    for count in range(2000):
        track.record_position(dice.random() < right)
        if count > 300:
            seen.append(track.mean.value)
    assert sum(seen) / len(seen) == pytest.approx(right, abs=0.03)
    assert sum(abs(mean - right) for mean in seen) / len(seen) < 0.06


def test_the_mean_follows_a_turn() -> None:
    track = Track()
    for _ in range(300):
        track.record_position(False)
    for _ in range(32):
        track.record_position(True)
    assert track.mean.value > 0.6


@pytest.mark.parametrize("stated", [-1.0, 0.0, 0.5, 1.0, 7.0, float("nan")])
def test_any_stated_probability_is_taken(stated: float) -> None:
    track = Track()
    for _ in range(500):
        track.record(stated, 0, True)
        track.record_position(True)
    assert 0.9 < track.probability(stated, 0) <= 1.0
    assert 0.9 < track.mean.value <= 1.0

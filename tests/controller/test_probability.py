from __future__ import annotations

import random

import pytest

from guessahead.controller.probability import MOST, STATED_PRIOR, Track


def test_a_chance_is_learned_per_confidence_and_depth() -> None:
    track, dice = Track(STATED_PRIOR), random.Random(0)
    for _ in range(600):
        track.record(0.9, 0, dice.random() < 0.5)
        track.record(0.9, 2, dice.random() < 0.9)
        track.record(0.2, 0, dice.random() < 0.2)
    assert track.chance(0.9, 0) == pytest.approx(0.5, abs=0.2)
    assert track.chance(0.9, 5) == pytest.approx(0.9, abs=0.12)
    assert track.chance(0.2, 0) == pytest.approx(0.2, abs=0.15)


def test_a_liar_is_found_out_within_ten_guesses() -> None:
    track = Track()
    for _ in range(10):
        track.record(0.99, 0, False)
    assert track.chance(0.99, 0) < 0.15


def test_a_measured_prior_is_not_thrown_over_by_a_few_misses() -> None:
    track = Track(STATED_PRIOR)
    before = track.chance(0.75, 0)
    track.record(0.75, 0, False)
    assert track.chance(0.75, 0) > 0.85 * before


def test_a_drafter_that_starts_to_fail_is_noticed_in_all_buckets() -> None:
    track = Track(STATED_PRIOR)
    for _ in range(40):
        track.record(0.9, 0, True)
    for _ in range(6):
        track.record(0.9, 0, False)
    assert track.chance(0.65, 0) < 0.5


@pytest.mark.parametrize("right", [0.3, 0.6, 0.9])
def test_the_mean_is_steady_on_steady_text(right: float) -> None:
    dice, track, seen = random.Random(3), Track(), []
    for count in range(2000):
        hit = dice.random() < right
        track.record_position(hit, hit)
        if count > 300:
            seen.append(track.mean)
    assert sum(seen) / len(seen) == pytest.approx(right, abs=0.03)
    assert sum(abs(mean - right) for mean in seen) / len(seen) < 0.06


def test_the_mean_follows_a_turn() -> None:
    track = Track()
    for _ in range(300):
        track.record_position(False, False)
    for _ in range(16):
        track.record_position(True, True)
    assert track.mean > 0.6


def test_siblings_do_not_lengthen_a_chain() -> None:
    """Half of what is right stands beside the chain, which goes on behind its own guesses alone."""
    track = Track()
    for count in range(400):
        track.record_position(count % 5 > 0, count % 5 > 2)
    assert track.mean == pytest.approx(0.8, abs=0.03)
    assert track.main_mean == pytest.approx(0.4, abs=0.03)


@pytest.mark.parametrize("confidence", [-1.0, 0.0, 0.5, 1.0, 7.0])
def test_any_confidence_is_taken(confidence: float) -> None:
    track = Track()
    for _ in range(500):
        track.record(confidence, 0, True)
        track.record_position(True, True)
    assert 0.0 < track.chance(confidence, 0) <= MOST < 1.0

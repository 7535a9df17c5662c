from __future__ import annotations

import random

import pytest

from guessahead.controller.pass_costs import FIRST_SLOPE, LearnedPassCosts
from guessahead.controller.pass_curve import PassCurve

TRUE_V = [0.0, 1.0, 1.08, 1.2, 1.32, 1.57, 1.77, 2.0, 2.2]


def learned(num_passes: int, noise: float = 0.0, stolen: float = 0.0) -> LearnedPassCosts:
    """What is known after so many passes. noise: relative; stolen: how often one takes five times as long."""
    dice, costs = random.Random(1), LearnedPassCosts(16)
    for _ in range(num_passes):
        rows = dice.choice([1, 1, 2, 3, 5, 8])
        factor = (5.0 if dice.random() < stolen else 1.0) * (1.0 + noise * (dice.random() - 0.5))
        costs.learn(rows, 0.004 * TRUE_V[rows] * factor)
    return costs


@pytest.mark.parametrize(("noise", "stolen"), [(0.0, 0.0), (0.2, 0.0), (0.1, 0.05)])
def test_the_curve_is_found(noise: float, stolen: float) -> None:
    costs = learned(400, noise, stolen)
    for rows in (2, 3, 5, 8):
        assert costs.v[rows] == pytest.approx(TRUE_V[rows], rel=0.08)
    assert costs.seconds == pytest.approx(0.004, rel=0.12)


def test_it_starts_at_one_and_no_pass_is_cheaper() -> None:
    for num_passes in range(0, 200, 7):
        costs = learned(num_passes, 0.5, 0.1)
        assert costs.v[1] == 1.0
        assert min(costs.v[1:]) >= 1.0


def test_nothing_known_is_a_straight_line() -> None:
    assert LearnedPassCosts(4).v[1:] == pytest.approx([1.0 + FIRST_SLOPE * rows for rows in range(4)])


def test_what_was_measured_is_interpolated() -> None:
    costs = LearnedPassCosts(9, PassCurve({1: 0.01, 3: 0.014, 5: 0.03}))
    assert costs.seconds == 0.01
    assert costs.v[1:] == pytest.approx([1.0, 1.2, 1.4, 2.2, 3.0, 3.5, 4.0, 4.5, 5.0])


def test_a_size_that_is_used_bends_the_curve_between_those_that_were_measured() -> None:
    costs = LearnedPassCosts(8, PassCurve({1: 1.0, 5: 1.4}))
    for _ in range(40):
        costs.learn(1, 1.0)
        costs.learn(3, 1.9)
    assert costs.v[3] == pytest.approx(1.9, rel=0.05)
    assert costs.v[2] > 1.3, "between both, as far as they were known while it was unknown"


def test_rows_without_a_measurement_follow_the_others() -> None:
    """Four rows that cost nothing make it likely that sixteen cost little."""
    costs = LearnedPassCosts(16)
    for _ in range(8):
        costs.learn(1, 1.0)
        costs.learn(4, 1.0)
    assert costs.v[16] < 1.0 + 0.5 * FIRST_SLOPE * 15


def test_a_slower_machine_is_followed_without_bending_the_curve() -> None:
    costs = LearnedPassCosts(8)
    for factor in (1.0, 1.6):
        for _ in range(60):
            for rows in (1, 4):
                costs.learn(rows, 0.01 * factor * TRUE_V[rows])
    assert costs.seconds == pytest.approx(0.016, rel=0.03)
    assert costs.v[4] == pytest.approx(TRUE_V[4], rel=0.05)


def test_passes_of_more_rows_than_the_engine_takes_are_prompts() -> None:
    costs = LearnedPassCosts(8)
    costs.learn(9, 1.0)
    assert costs.num_learned == 0


def test_what_was_learned_is_a_beginning_for_another_time() -> None:
    costs = learned(400)
    again = LearnedPassCosts(16, costs.curve())
    assert again.seconds == pytest.approx(costs.seconds)
    assert [again.v[rows] for rows in (1, 2, 3, 5, 8)] == pytest.approx(
        [costs.v[rows] for rows in (1, 2, 3, 5, 8)]
    )

"""The prediction, against the published table and against its own definitions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guessahead.errors import ParameterError
from guessahead.measure.formulas import (
    Costs,
    VerifyCurve,
    best_gamma,
    break_even,
    forecast,
    grid,
    predict_speedup,
    predict_tau,
    rising,
)
from guessahead.report.measured import from_trace
from tests.report.documents import Made, trace

alphas = st.floats(0.0, 1.0)
gammas = st.integers(0, 20)
costs = st.builds(
    lambda c, step: Costs(c, VerifyCurve({2: 1 + step, 9: 1 + 4 * step})),
    st.floats(0.0, 0.5),
    st.floats(0.0, 0.5),
)


def test_the_curve_goes_through_its_points_and_on() -> None:
    curve = VerifyCurve.parse("2:1.1, 4:1.5,8:3.5")
    assert [curve(rows) for rows in (1, 2, 3, 4, 6, 8)] == pytest.approx([1, 1.1, 1.3, 1.5, 2.5, 3.5])
    assert curve(10) == pytest.approx(4.5)
    assert curve.points == {1: 1.0, 2: 1.1, 4: 1.5, 8: 3.5}
    assert VerifyCurve()(64) == 1.0


def test_a_curve_that_falls_at_its_end_stays_where_it_is() -> None:
    curve = VerifyCurve({2: 1.5, 4: 0.9})
    assert curve(100) == 0.9
    assert not rising(curve)
    assert rising(VerifyCurve({2: 1.0, 4: 1.2}))


@pytest.mark.parametrize(
    "text", ["", "2", "2:x", "x:2", "2:1,2:1", "0:1", "2:0", "2:-1", "2:inf", "1:2", "2:nan"]
)
def test_impossible_curves(text: str) -> None:
    with pytest.raises(ParameterError):
        VerifyCurve.parse(text)


@given(alphas, gammas, costs)
def test_a_forecast_is_the_formula(alpha: float, gamma: int, costs: Costs) -> None:
    found = forecast(alpha, gamma, costs)
    assert found.tau == predict_tau(alpha, gamma)
    assert found.speedup == predict_speedup(alpha, gamma, costs.c, costs.v(gamma + 1))


@given(alphas, costs)
def test_no_gamma_beats_the_best(alpha: float, costs: Costs) -> None:
    best = best_gamma(alpha, costs, 20)
    assert all(costs.speedup(alpha, best) >= costs.speedup(alpha, gamma) for gamma in range(21))
    assert costs.speedup(alpha, best) >= 1.0


@given(st.integers(1, 20), costs)
def test_break_even_is_where_the_speed_is_one(gamma: int, costs: Costs) -> None:
    alpha = break_even(gamma, costs)
    if alpha is None:
        assert costs.speedup(1.0, gamma) < 1.0
    elif alpha > 0:
        assert costs.speedup(alpha, gamma) == pytest.approx(1.0, abs=1e-6)


def test_free_guesses_break_even_at_zero() -> None:
    assert break_even(4, Costs()) == 0.0


def test_one_guess_breaks_even_where_algebra_says() -> None:
    # (1 + alpha) / (c + v) = 1
    assert break_even(1, Costs(0.1, VerifyCurve({2: 1.2}))) == pytest.approx(0.3)


def test_grid() -> None:
    table = grid(Costs(0.1), (1, 4), (0.5, 0.9))
    assert table.speedups[1][0] == predict_speedup(0.5, 4, 0.1, 1.0)


def _made(*, compared: bool) -> dict[str, object]:
    plain = {"forward_seconds": 0.04, "num_passes": 10}
    return {"plain": plain, "comparison": {"ratio": 1.25}} if compared else {}


def test_from_a_trace_with_plain_decoding() -> None:
    steps = [Made([], [], [0]), Made([0, 0], [0], [0, 0]), Made([0], [0], [0, 0], kind="bonus")]
    found = from_trace(trace(["a"], steps, stats={"alpha": 0.75, "tau": 2.0}, **_made(compared=True)))
    # Passes of 3 and 2 rows took 8 ms each, a plain one 4 ms; 1 ms of guessing per step; 3 guesses.
    assert found.costs.v.points == {1: 1.0, 2: 2.0, 3: 2.0}
    assert found.costs.c == pytest.approx(2 / 3 / 4)
    assert (found.alpha, found.tau, found.speedup, found.mean_draft) == (0.75, 2.0, 1.25, 1.5)
    assert found.share == 1.0


def test_from_a_trace_without_plain_decoding() -> None:
    guessing = Made([0, 0], [0], [0, 0])
    stats = {"alpha": 0.5}
    found = from_trace(trace(["a"], [Made([], [], [0]), guessing, Made([], [], [0])], stats=stats))
    assert found.costs.v.points == {1: 1.0, 3: 1.0}
    assert found.share == 0.5
    with pytest.raises(ParameterError, match="--compare"):
        from_trace(trace(["a"], [Made([], [], [0]), guessing], stats=stats))
    with pytest.raises(ParameterError, match="no step with guesses"):
        from_trace(trace(["a"], [Made([], [], [0])], stats=stats))


# Leviathan, Kalman, Matias 2023, table 2, T5-XXL, EnDe, T = 0 (docs/predicting.md has all of it).
@pytest.mark.parametrize(
    ("alpha", "gamma", "c", "expected"), [(0.75, 7, 0.02, 3.16), (0.80, 7, 0.04, 3.25), (0.82, 7, 0.11, 2.50)]
)
def test_the_published_table(alpha: float, gamma: int, c: float, expected: float) -> None:
    assert round(forecast(alpha, gamma, Costs(c)).speedup, 2) == expected

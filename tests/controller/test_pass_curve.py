from __future__ import annotations

from collections.abc import Sequence

import pytest

from guessahead.controller.pass_curve import PassCurve, measure_passes
from guessahead.protocols import PassOutput, Rows
from tests.support.fakes import ScriptEngine


class Timed(ScriptEngine):
    """The n-th pass of m rows takes seconds[m][n], or the last of these; others take one."""

    def __init__(self, seconds: dict[int, Sequence[float]], **limits: int) -> None:
        super().__init__(list(range(20)), **limits)
        self.now = 0.0
        self._seconds = {rows: list(each) for rows, each in seconds.items()}
        self.lengths: list[int] = []
        self.sizes: list[int] = []

    def forward(self, requests: Sequence[Rows]) -> list[PassOutput]:
        [rows] = requests
        self.lengths.append(rows.sequence.length)
        self.sizes.append(len(rows.token_ids))
        left = self._seconds.get(len(rows.token_ids), [1.0])
        self.now += left.pop(0) if len(left) > 1 else left[0]
        return super().forward(requests)


def measured(engine: Timed, sizes: Sequence[int], num_rounds: int = 3, **rest: float) -> PassCurve:
    return measure_passes(engine, sizes=sizes, num_rounds=num_rounds, clock=lambda: engine.now, **rest)


def test_the_shortest_pass_of_each_size_counts() -> None:
    engine = Timed({1: [0.5, 0.02, 0.03, 0.02], 2: [0.03, 0.022], 4: [0.03, 0.9]})
    curve = measured(engine, (2, 4))
    assert curve.seconds == pytest.approx({1: 0.02, 2: 0.022, 4: 0.03})
    assert curve.v == pytest.approx({1: 1.0, 2: 1.1, 4: 1.5})
    assert not curve.noisy
    assert set(engine.lengths[1:]) == {64}
    assert engine.num_open == 0


def test_no_size_is_always_the_first_of_a_round() -> None:
    engine = Timed({})
    measured(engine, (2, 4))
    assert engine.sizes[1:] == [1, 1, 2, 4, 2, 4, 1, 4, 1, 2], "one row warms up, then three rounds"


def test_progress_is_told() -> None:
    told: list[tuple[int, int]] = []
    engine = Timed({})
    measure_passes(
        engine, sizes=(2,), num_rounds=2, clock=lambda: engine.now, progress=lambda *both: told.append(both)
    )
    assert told == [(1, 2), (2, 2)]


def test_time_is_limited_but_each_size_has_a_pass() -> None:
    slow = Timed({rows: [1.0] for rows in (1, 2, 3)})
    assert list(measured(slow, (2, 3), max_seconds=0.1).seconds) == [1, 2, 3]
    assert len(slow.sizes) == 1 + 1 + 3
    quick = Timed({rows: [0.01] for rows in (1, 2, 3)})
    measured(quick, (2, 3), num_rounds=100, max_seconds=0.1)
    assert 0.1 <= quick.now - 1.0 <= 0.13, "the text before the passes takes a second"


@pytest.mark.parametrize(
    "seconds",
    [{1: [0.2, 0.1, 0.17, 0.17], 2: [0.2]}, {1: [0.2], 2: [0.1]}, {1: [0.1], 2: [0.3], 4: [0.2]}],
    ids=["one row now and then takes longer", "two rows take less than one", "four take less than two"],
)
def test_a_disturbed_measurement_is_called_noisy(seconds: dict[int, Sequence[float]]) -> None:
    assert measured(Timed(seconds), (2, 4)).noisy


def test_v_never_falls() -> None:
    assert PassCurve({1: 1.0, 2: 0.98, 4: 1.5, 6: 1.45}).v == {1: 1.0, 2: 1.0, 4: 1.5, 6: 1.5}


@pytest.mark.parametrize(("limits", "sizes"), [({"max_rows": 3}, [1, 2]), ({"context_length": 7}, [1, 2, 4])])
def test_sizes_that_the_engine_cannot_take_are_left_out(limits: dict[str, int], sizes: Sequence[int]) -> None:
    assert list(measured(Timed({}, **limits), (2, 4, 8), num_rounds=1).seconds) == sizes

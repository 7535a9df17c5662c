from __future__ import annotations

import json
import random
from typing import Any

import pytest

from guessahead.core.stats import Recorder, Stats, StepCounts, StepSeconds
from guessahead.errors import ParameterError
from guessahead.measure.formulas import predict_speedup, predict_tau


def recorded(steps: list[dict[str, int]]) -> Stats:
    recorder = Recorder()
    for step in steps:
        recorder.count(StepCounts(num_read=12, **step))
        recorder.time(StepSeconds(0.25, 0.5, 0.125), num_passes=1)
    return recorder.stats(drafter="x", gamma=4, num_prompt_tokens=16, bytes_per_pass=10**9)


def step(num_tokens: int, num_drafted: int = 0, num_tested: int = 0, num_accepted: int = 0) -> dict[str, int]:
    return {
        "num_tokens": num_tokens,
        "num_drafted": num_drafted,
        "num_tested": num_tested,
        "num_accepted": num_accepted,
    }


# The prompt's step; 2 of 4 right; all 4 right; 0 of 3 right; a plain step.
FOUR = recorded([step(1), step(3, 4, 3, 2), step(5, 4, 4, 4), step(1, 3, 1, 0), step(1)])


def test_counters() -> None:
    assert (FOUR.num_tokens, FOUR.num_decoded, FOUR.num_steps) == (11, 10, 4)
    assert (FOUR.num_prompt_passes, FOUR.num_passes, FOUR.num_sweeps_saved) == (1, 4, 6)
    assert (FOUR.num_drafted, FOUR.num_tested, FOUR.num_accepted) == (11, 8, 6)
    assert FOUR.accepted_lengths == (2, 0, 1, 0, 1)
    assert (FOUR.tested_at, FOUR.accepted_at) == ((3, 2, 2, 1), (2, 2, 1, 1))


def test_rates() -> None:
    assert FOUR.alpha == 6 / 8
    assert FOUR.tau == 10 / 4
    assert FOUR.alpha_at == (2 / 3, 1.0, 0.5, 1.0)
    assert FOUR.prompt_seconds == 0.875
    assert FOUR.prompt_tokens_per_second == 12 / 0.875
    assert FOUR.num_kept_tokens == 4
    assert (FOUR.propose_seconds, FOUR.forward_seconds, FOUR.rest_seconds) == (1.0, 2.0, 0.5)
    assert FOUR.tokens_per_second == 10 / 3.5
    assert FOUR.gb_per_second == 4 / 2.0


def test_nothing_counted_gives_no_rate() -> None:
    one = recorded([step(1)])
    assert (one.alpha, one.tau, one.tokens_per_second, one.gb_per_second) == (None, None, None, None)
    assert recorded([]).num_decoded == 0


NAMES = {
    "note",
    "num_expected",
    "num_kept_tokens",
    *("drafter", "gamma", "num_prompt_tokens", "num_tokens", "num_prompt_passes", "num_passes", "num_steps"),
    *("num_drafted", "num_tested", "num_accepted", "accepted_lengths", "tested_at", "accepted_at"),
    *("prompt_seconds", "propose_seconds", "forward_seconds", "rest_seconds", "bytes_per_pass"),
    *("num_decoded", "alpha", "tau", "alpha_at", "decode_seconds", "tokens_per_second"),
    *("prompt_tokens_per_second", "gb_per_second", "num_sweeps_saved"),
}


def test_the_dict_is_json_with_stable_names() -> None:
    found: dict[str, Any] = json.loads(json.dumps(FOUR.to_dict()))
    assert set(found) == NAMES
    assert found["alpha"] == 0.75
    assert found["accepted_lengths"] == [2, 0, 1, 0, 1]


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.9, 1.0])
@pytest.mark.parametrize("gamma", [0, 1, 5])
def test_the_formula_agrees_with_rolling_dice(alpha: float, gamma: int) -> None:
    dice = random.Random(1)
    total = 0
    for _ in range(20_000):
        length = 0
        while length < gamma and dice.random() < alpha:
            length += 1
        total += length + 1
    assert predict_tau(alpha, gamma) == pytest.approx(total / 20_000, rel=0.02)


def test_predicted_speedup() -> None:
    assert predict_speedup(0.5, 0, c=0.3, v=1.0) == 1.0
    assert predict_speedup(1.0, 4, c=0.0, v=1.0) == 5.0
    assert predict_speedup(0.5, 1, c=0.25, v=1.25) == pytest.approx(1.5 / 1.5)
    for bad in (
        (-0.1, 1, 0.1, 1.0),
        (1.1, 1, 0.1, 1.0),
        (0.5, -1, 0.1, 1.0),
        (0.5, 1, -0.1, 1.0),
        (0.5, 1, 0.1, 0.0),
    ):
        with pytest.raises(ParameterError):
            predict_speedup(*bad)

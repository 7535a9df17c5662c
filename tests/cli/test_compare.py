"""--compare: equal is equal, and a difference cannot hide."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from click.testing import Result

from guessahead.core.stats import Recorder, Stats, StepCounts, StepSeconds
from guessahead.measure.bench.comparison import Comparison, StepCosts, predict, predicted_tau
from guessahead.measure.formulas import predict_speedup, predict_tau
from guessahead.types import Draft, Generation, Int32, Verdict
from tests.support.tiny import TinyModel

Generate = Callable[..., Result]


@pytest.mark.parametrize(
    "settings", [(), ("--temperature", "1.2", "--seed", "1"), ("--repetition-penalty", "1.3")]
)
def test_identical(generate: Generate, tiny: TinyModel, settings: tuple[str, ...]) -> None:
    result = generate("--compare", "--draft-model", str(tiny.path), *settings)
    assert result.exit_code == 0
    assert "identical: yes (24/24 tokens)" in result.stderr
    assert result.stderr.count("tokens/s") == 2
    assert "ratio" in result.stderr
    assert "predicted" in result.stderr


def test_stdout_has_the_answer_once(generate: Generate) -> None:
    assert generate("--compare", "--repeat", "3").stdout == generate().stdout


def unchecked(draft: Draft, chosen: Int32) -> Verdict:
    """A fault: every guess enters the text."""
    path = np.arange(len(draft), dtype=np.int32)
    return Verdict(path, np.append(draft.token_ids, chosen[:1]).astype(np.int32), len(draft))


def test_a_planted_fault_is_found(
    generate: Generate, other_tiny: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guesses that enter the text unchecked: the comparison says NO, where, and exits with 1."""

    monkeypatch.setattr("guessahead.core.step.accept", unchecked)
    options = ("--compare", "--draft-model", str(other_tiny.path))
    result = generate(*options)
    assert result.exit_code == 1
    assert "identical: NO (" in result.stderr
    assert "first difference at token " in result.stderr
    result = generate(*options, "--json")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    index = document["first_difference"]
    plain, other = document["plain"]["token_ids"], document["speculative"]["token_ids"]
    assert document["identical"] is False
    assert plain[:index] == other[:index]
    assert plain[index] != other[index]


def test_first_difference() -> None:
    def difference(one: Generation, *others: Generation) -> int | None:
        return Comparison((one,), others).first_difference

    answer = _generation((1, 2, 3))
    assert difference(answer, answer) is None
    assert difference(answer, _generation((1, 5, 3))) == 1
    assert difference(answer, _generation((1, 2))) == 2  # a shorter text is not an equal text
    assert difference(answer, _generation((1, 2, 3, 4))) == 3
    assert difference(answer, replace(answer, text="other")) == 3
    assert difference(answer, answer, _generation((7, 2, 3))) == 0  # in any round


def test_verdict_counts_from_one() -> None:
    comparison = Comparison((_generation((1, 2, 3)),), (_generation((1, 5, 3)),))
    assert comparison.verdict == "identical: NO (1/3 tokens; first difference at token 2)"


def test_ratio_is_that_of_the_medians() -> None:
    plain = tuple(_generation((1,) * 11, _stats(seconds=1.0)) for _ in range(3))
    ours = tuple(_generation((1,) * 11, _stats(seconds=seconds)) for seconds in (0.5, 0.25, 5.0))
    assert Comparison(plain, ours).ratio == pytest.approx(2.0)


def test_predicted_tau_of_full_drafts_is_the_formula() -> None:
    stats = _stats(num_steps=10, num_drafted=40, tested_at=(10, 8, 6, 4), num_accepted=21)
    assert stats.alpha == 0.75
    assert predicted_tau(stats) == pytest.approx(predict_tau(0.75, 4))


def test_predicted_tau_counts_steps_without_guesses() -> None:
    stats = _stats(num_steps=20, num_drafted=40, tested_at=(10, 8, 6, 4), num_accepted=21)
    assert predicted_tau(stats) == pytest.approx((predict_tau(0.75, 4) + 1) / 2)
    assert predicted_tau(_stats()) is None


def test_predicted_tau_is_what_the_policy_expected() -> None:
    """A tree of four guesses on two levels cannot give five tokens, whatever alpha is."""
    stats = _stats(num_steps=10, num_drafted=40, tested_at=(10, 8), num_accepted=14, expected=22.0)
    assert predicted_tau(stats) == pytest.approx(2.2)


def test_the_ratio_is_tau_over_the_costs_of_a_step() -> None:
    plain, ours = _stats(num_steps=10, seconds=1.0), _stats(num_steps=5, seconds=0.75)
    ours = replace(ours, num_tokens=11, propose_seconds=0.05, rest_seconds=0.1)
    costs = StepCosts.of(plain, ours)
    assert costs is not None
    assert (costs.rows, costs.drafting, costs.handling) == pytest.approx((0.5, 0.1, 0.2))
    assert ours.tau is not None
    assert ours.tau / costs.whole == pytest.approx(plain.decode_seconds / ours.decode_seconds)
    assert StepCosts.of(plain, replace(ours, num_steps=0)) is None


def test_predicted_ratio_is_the_formula() -> None:
    plain = _stats(num_steps=10, seconds=1.0)
    full = _stats(num_steps=10, num_drafted=40, tested_at=(10, 8, 6, 4), num_accepted=21, seconds=1.5)
    prediction = predict(plain, replace(full, propose_seconds=0.8))
    assert prediction is not None
    assert (prediction.c, prediction.v) == (pytest.approx(0.2), pytest.approx(1.5))
    assert prediction.ratio == pytest.approx(predict_speedup(0.75, 4, 0.2, 1.5))


def _stats(
    num_steps: int = 10,
    num_drafted: int = 0,
    tested_at: tuple[int, ...] = (),
    num_accepted: int = 0,
    seconds: float = 1.0,
    expected: float | None = None,
) -> Stats:
    """Of num_steps passes that took `seconds` in all."""
    recorder = Recorder()
    for index in range(num_steps + 1):
        recorder.count(StepCounts(1, 1, 0, 0, 0))
        recorder.time(StepSeconds(0.0, seconds / num_steps if index else 9.0, 0.0), 1)
    counted = recorder.stats(drafter="none", gamma=4, num_prompt_tokens=1, bytes_per_pass=1)
    changes: dict[str, Any] = {"num_drafted": num_drafted, "tested_at": tested_at, "num_expected": expected}
    return replace(counted, num_tested=sum(tested_at), num_accepted=num_accepted, **changes)


def _generation(token_ids: tuple[int, ...], stats: Stats | None = None) -> Generation:
    return Generation("text", token_ids, "eos", 1, 0, stats or _stats())

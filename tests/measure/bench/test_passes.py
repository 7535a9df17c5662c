"""`guessahead bench passes`."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from guessahead import load
from guessahead.engines.native.engine import NativeEngine
from guessahead.measure.bench.passes import BLOCK_PASSES, Bench, PassTimes, context_entry
from guessahead.measure.bench.peaks import PassFloor, Peaks, Work
from guessahead.protocols import PassOutput, Rows
from tests.measure.bench.conftest import run
from tests.support.tiny import TinyModel

ARGUMENTS = ("--contexts", "40,90", "--rows", "3,5", "--repeat", "3", "--prompt", "70")


def document(tiny: TinyModel, exit_code: int = 0) -> dict[str, Any]:
    result = run("bench", "passes", "-m", str(tiny.path), *ARGUMENTS)
    assert result.exit_code == exit_code, result.output
    parsed: dict[str, Any] = json.loads(result.stdout)
    return parsed


def test_rows(tiny: TinyModel) -> None:
    found = document(tiny)
    assert [(row["context"], row["rows"]) for row in found["rows"]] == [
        (context, rows) for context in (40, 90) for rows in (1, 3, 5)
    ]
    for row in found["rows"]:
        [one] = [r for r in found["rows"] if r["context"] == row["context"] and r["rows"] == 1]
        assert row["v"] == pytest.approx(row["ms"] / one["ms"])
        assert row["ratio_to_roofline"] == pytest.approx(row["ms"] / row["roofline_ms"])
        assert row["roofline_ms"] > 0
    assert found["identical"] is True
    assert found["prompt"]["num_tokens"] == 70
    assert found["peaks"] == {
        "read_gb_per_s": 20.0,
        "int8_gmac_per_s": 200.0,
        "f32_gmac_per_s": 100.0,
        "num_samples": 3,
    }


def test_the_profile_adds_up_to_the_pass(tiny: TinyModel) -> None:
    profiles = document(tiny)["profile"]
    assert [(entry["context"], entry["rows"]) for entry in profiles] == [(40, 1), (90, 1)]
    for entry in profiles:
        assert {"matmul", "attention", "choose", "other"} <= set(entry["ms"])
        assert all(ms >= 0 for ms in entry["ms"].values())


def test_a_row_that_chooses_differently_is_noticed(tiny: TinyModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault: the last of five rows chooses another token than plain decoding did."""
    sound = NativeEngine.forward

    def forward(self: NativeEngine, requests: list[Rows]) -> list[PassOutput]:
        outputs = sound(self, requests)
        if len(requests[0].token_ids) == 5:
            outputs[0].chosen[4] ^= 1
        return outputs

    monkeypatch.setattr(NativeEngine, "forward", forward)
    assert document(tiny, exit_code=1)["identical"] is False


def test_costs_are_those_of_the_file(tiny: TinyModel) -> None:
    engine = load(tiny.path).runner.engine
    assert isinstance(engine, NativeEngine)
    costs = PassFloor.of(tiny.path, engine, int8=True)
    matrices = [
        values for name, values in tiny.weights.items() if values.ndim == 2 and "token_embd" not in name
    ]
    assert costs.int8_macs == sum(values.size for values in matrices)
    assert costs.f32_macs == 0
    assert PassFloor.of(tiny.path, engine, int8=False).f32_macs == costs.int8_macs
    # Scores and sums: two multiply-adds for each cached position, head and element.
    work = costs.work(num_rows=3, num_positions=10, cache_bytes=7.0)
    assert work.f32_macs == 3 * 10 * 2 * tiny.layers * tiny.heads * tiny.head_dim
    assert work.num_bytes == engine.info.bytes_per_pass + 7.0


def test_the_roofline_is_the_larger_of_two() -> None:
    peaks = Peaks(read_bandwidth=10.0, int8=100.0, f32=50.0)
    assert peaks.least_seconds(Work(num_bytes=40.0, int8_macs=100.0, f32_macs=50.0)) == pytest.approx(4.0)
    assert peaks.least_seconds(Work(num_bytes=10.0, int8_macs=100.0, f32_macs=50.0)) == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--contexts", "1020"), "contexts must be from 1 to"),
        (("--rows", "65"), "rows must be from 1 to 64"),
        (("--rows", "0"), "not a list of whole numbers above 0"),
        (("--rows", "two"), "not a list of whole numbers above 0"),
    ],
)
def test_what_does_not_fit_is_refused(tiny: TinyModel, arguments: tuple[str, ...], words: str) -> None:
    result = run("bench", "passes", "-m", str(tiny.path), *arguments)
    assert result.exit_code == 2
    assert words in result.stderr


def test_all_rows_are_accepted_ones(tiny: TinyModel) -> None:
    """So `choose` runs for each of them, as it does for a draft that is right."""
    from guessahead.measure.bench.passes import text_of

    lm = load(tiny.path)
    assert isinstance(lm.runner.engine, NativeEngine)
    bench = Bench(lm.runner.engine, text_of(lm, 30), 4)
    calls: list[PassOutput] = []
    sound = lm.runner.engine.forward
    lm.runner.engine.forward = lambda requests: calls.extend(found := sound(requests)) or found  # type: ignore
    bench.run(4)
    assert np.all(calls[0].chosen >= 0)
    assert bench.sequence.length == 30


class Recorded(Bench):
    """Passes that take a millisecond a row, and the order in which they were run."""

    def __init__(self) -> None:
        self.order: list[int] = []

    def run(self, num_rows: int) -> float:
        self.order.append(num_rows)
        return num_rows * 1e-3


def test_each_round_begins_with_another_size_and_has_blocks() -> None:
    bench = Recorded()
    times = PassTimes(bench, [1, 2, 4])
    for start in ([1, 2, 4], [2, 4, 1], [4, 1, 2]):
        bench.order.clear()
        times.sample()
        blocks = [size for size in (*start, 1) for _ in range(BLOCK_PASSES)]
        assert bench.order == start + blocks
    assert times.v(4) == times.alternating_v(4) == pytest.approx(4.0)
    assert times.null == 1.0
    floor, peaks = PassFloor(1, int8_macs=10, f32_macs=0, attention_macs=0), Peaks(1.0, int8=2e4, f32=1.0)
    entry = context_entry(100, times, floor, peaks)
    assert entry["up_to_rows"] == 4
    assert entry["further_row_ms"] == pytest.approx(1.0)
    assert entry["further_row_over_macs"] == pytest.approx(2.0)
    one = PassTimes(bench, [1])
    one.sample()
    assert context_entry(100, one, floor, peaks) == {"context": 100, "null": 1.0}

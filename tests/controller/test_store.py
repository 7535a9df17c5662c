from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from guessahead.controller import store
from guessahead.controller.pass_costs import LearnedPassCosts
from guessahead.controller.pass_curve import PassCurve
from guessahead.protocols import Engine
from tests.support.fakes import TinyEngine

MEASURED = PassCurve({1: 0.25, 2: 0.3, 8: 0.5})


class Named(TinyEngine):
    """An engine that says what its pass times depend on."""

    def __init__(self, vocab_size: int = 24, cost_key: str = "test 2 int8") -> None:
        super().__init__(vocab_size)
        self.info = replace(self.info, cost_key=cost_key)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[PassCurve]:
    """What the next measurements find; MEASURED where the list is empty."""
    found: list[PassCurve] = []
    monkeypatch.setattr(store, "measure_passes", lambda *_, **__: found.pop() if found else MEASURED)
    return found


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measured: list[PassCurve]) -> Path:
    monkeypatch.setenv("GUESSAHEAD_CACHE", str(tmp_path))
    return tmp_path / "costs"


def learned() -> Engine:
    """An engine whose passes took half a second each."""
    engine = Named()
    for _ in range(200):
        store.costs_of(engine).learn(1, 0.5)
    store.keep(engine)
    return engine


def test_costs_are_measured_once_and_outlive_the_process(cache: Path, measured: list[PassCurve]) -> None:
    engine = Named()
    assert store.costs_of(engine) is store.costs_of(engine)
    assert store.costs_of(engine).seconds == 0.25
    measured.append(PassCurve({1: 9.0}))
    assert store.costs_of(Named()).seconds == 0.25, "read from the file"
    assert measured, "and not measured again"


def test_what_was_learned_since_is_kept(cache: Path) -> None:
    learned()
    again = store.costs_of(Named())
    assert again.seconds == pytest.approx(0.5, rel=0.01)
    assert again.v[8] == pytest.approx(2.0)


def test_a_few_passes_are_not_worth_writing(cache: Path) -> None:
    engine = Named()
    for _ in range(store.WRITE_PASSES - 1):
        store.costs_of(engine).learn(1, 0.5)
    store.keep(engine)
    assert store.costs_of(Named()).seconds == 0.25


def test_a_noisy_measurement_is_neither_used_nor_kept(cache: Path, measured: list[PassCurve]) -> None:
    measured.append(PassCurve({1: 9.0}, noisy=True))
    assert store.costs_of(Named()).v == LearnedPassCosts(64).v
    assert store.costs_of(Named()).seconds == 0.25, "measured again"


def test_another_model_or_setting_has_another_file(cache: Path) -> None:
    learned()
    assert store.costs_of(Named(vocab_size=9)).seconds == pytest.approx(0.5, rel=0.01)
    assert store.costs_of(Named(cost_key="test 1 int8")).seconds == 0.25


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "[]",
        "{}",
        "null",
        '{"1": -1}',
        '{"1": NaN}',
        '{"1": 1e300}',
        '{"2": 0.1}',
        '{"0": 0.1, "1": 0.1}',
        '{"1": 0.1, "65": 0.1}',
        '{"x": 3}',
        '{"1": "a"}',
        '{"1": null}',
        "[" * 5000,
    ],
)
def test_a_damaged_file_does_not_matter(cache: Path, damage: str) -> None:
    learned()
    [path] = cache.iterdir()
    path.write_text(damage)
    assert store.costs_of(Named()).seconds == 0.25
    assert json.loads(path.read_text()) == {"1": 0.25, "2": 0.3, "8": 0.5}


def test_an_unwritable_cache_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measured: list[PassCurve]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GUESSAHEAD_CACHE", str(tmp_path / "file"))
    assert store.costs_of(learned()).seconds == pytest.approx(0.5, rel=0.01)


def test_an_engine_that_says_nothing_is_not_measured_and_leaves_nothing(cache: Path) -> None:
    engine = TinyEngine()
    assert store.costs_of(engine).seconds == 0.0
    for _ in range(500):
        store.costs_of(engine).learn(1, 1.0)
    store.keep(engine)
    assert not cache.exists()

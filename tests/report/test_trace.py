"""The trace file: what `generate --trace` writes is what `report` reads, and damage is found."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import guessahead as ga
from guessahead.errors import ParameterError
from guessahead.report import parse_trace, read_trace, trace_document
from tests.report.documents import Made, document
from tests.support.tiny import tiny_gguf

GOOD = document(
    ["a", b"\xe2\x9c", b"\x85"], [Made([], [], [0]), Made([1, 2], [0], [1, 0])], stats={"alpha": 0.5}
)


@pytest.fixture(scope="module")
def lm(tmp_path_factory: pytest.TempPathFactory) -> ga.LanguageModel:
    return ga.load(tiny_gguf(tmp_path_factory.mktemp("models") / "tiny.gguf", head_scale=5.0).path)


def test_a_real_trace_round_trips_through_json(lm: ga.LanguageModel) -> None:
    generation = lm.generate("the quick brown fox jumps over the quick brown", max_tokens=40, trace=True)
    trace = parse_trace(json.loads(json.dumps(trace_document(lm, generation))), "tiny")
    assert tuple(token for step in trace.steps for token in step.token_ids) == generation.token_ids
    assert trace.num_tokens == generation.stats.num_tokens == 40
    assert trace.stats["tau"] == generation.stats.tau
    for token, piece in trace.pieces.items():
        assert piece == (lm.tokenizer.token_bytes(token) or lm.tokenizer.token_bytes(token, special=True))
    assert trace.plain == trace.comparison == {}


def test_control_tokens_of_the_prompt_are_named(lm: ga.LanguageModel) -> None:
    trace = parse_trace(trace_document(lm, lm.generate("hello", max_tokens=2, trace=True)), "tiny")
    assert {trace.pieces[token] for token in trace.control_token_ids} >= {b"<|im_start|>", b"<|im_end|>"}


def test_a_generation_without_trace_is_refused(lm: ga.LanguageModel) -> None:
    with pytest.raises(ParameterError, match="trace=True"):
        trace_document(lm, lm.generate("hello", max_tokens=2))


def test_bytes_that_are_no_text() -> None:
    trace = parse_trace(GOOD, "x")
    assert trace.pieces == {0: b"a", 1: b"\xe2\x9c", 2: b"\x85"}


def test_unknown_names_are_left_alone() -> None:
    extended = copy.deepcopy(GOOD) | {"new": 1}
    extended["steps"][0]["new"] = 2
    assert parse_trace(extended, "x") == parse_trace(GOOD, "x")


def _edit(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    damaged = copy.deepcopy(GOOD)
    change(damaged)
    return damaged


@pytest.mark.parametrize(
    ("damaged", "word"),
    [
        ([], "is not a trace"),
        ({"token_ids": [1]}, "is not a trace"),
        (_edit(lambda d: d.update(version=2)), "version 2"),
        (_edit(lambda d: d.pop("version")), "version"),
        (_edit(lambda d: d.update(model=3)), "model"),
        (_edit(lambda d: d.update(steps=[])), "no step"),
        (_edit(lambda d: d["tokens"].pop("2")), "token 2"),
        (_edit(lambda d: d["tokens"].update({"1": {"hex": "zz"}})), "token 1"),
        (_edit(lambda d: d["tokens"].update({"1": "\ud800"})), "token 1"),
        (_edit(lambda d: d["tokens"].update(x="y")), "'x'"),
        (_edit(lambda d: d["steps"][1].update(path=[5])), "contradicts"),
        (_edit(lambda d: d["steps"][1].update(kind="odd")), "contradicts"),
        (_edit(lambda d: d["steps"][1]["draft"].update(parents=[0, 0])), "contradicts"),
        (_edit(lambda d: d["steps"][1]["seconds"].update(rest=float("nan"))), "contradicts"),
        (_edit(lambda d: d["steps"][1]["seconds"].update(rest="1")), "rest"),
        (_edit(lambda d: d["steps"][1].update(origins=["a"])), "contradicts"),
        (_edit(lambda d: d["steps"].append(7)), "draft"),
    ],
)
def test_damage_is_named(damaged: object, word: str) -> None:
    with pytest.raises(ParameterError, match="broken") as caught:
        parse_trace(damaged, "broken")
    assert word in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_are_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    with pytest.raises(ParameterError, match="cannot be read"):
        read_trace(path)
    path.write_bytes(b"\xff{")
    with pytest.raises(ParameterError, match="is not a JSON file"):
        read_trace(path)
    path.write_text("[" * 100_000)
    with pytest.raises(ParameterError, match="is not a JSON file"):
        read_trace(path)
    path.write_text(json.dumps(GOOD))
    assert read_trace(path).name == "x"


def test_the_controllers_reasons() -> None:
    why = {
        "members": [{"drafter": "suffix", "decision": "asked"}, {"drafter": "quiet", "decision": ""}, 3],
        "candidates": [{"chosen": True}, {"chosen": False}, None],
    }
    made = [
        Made([], [], [0], why={"plain": "too early"}),
        Made([], [], [0], why=why),
        Made([], [], [0], why=7),
    ]
    steps = parse_trace(document(["a"], made), "x").steps
    assert [step.reasons for step in steps] == [
        ("nothing guessed: too early",),
        ("suffix: asked", "1 of 3 guesses were verified"),
        (),
    ]

"""`make proof` leaves out what has passed on the same sources, and only that."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from tests.support.proof import COMPARED, Proof


def outcome(
    test: str, num_tokens: int = 0, result: Literal["passed", "failed"] = "passed"
) -> pytest.TestReport:
    properties = [(COMPARED, num_tokens)] if num_tokens else []
    return pytest.TestReport(test, ("", 0, ""), {}, result, None, "call", user_properties=properties)


def test_what_passed_is_known_to_the_next_run(tmp_path: Path) -> None:
    first = Proof(tmp_path)
    for report in (outcome("a", 40), outcome("b", result="failed"), outcome("c", 2)):
        first.pytest_runtest_logreport(report)
    assert "1 tests failed" in first.entry()
    second = Proof(tmp_path)
    assert set(second.passed()) == {"a", "c"}
    assert "2 tests passed" in second.entry()
    assert "42 tokens compared" in second.entry()
    assert "0 tests failed" in second.entry()


def test_half_a_line_of_an_interrupted_run_counts_as_none(tmp_path: Path) -> None:
    proof = Proof(tmp_path)
    proof.pytest_runtest_logreport(outcome("a"))
    with proof.path.open("a") as file:
        file.write('\n{"test": "b", "sec')
    proof.pytest_runtest_logreport(outcome("c"))
    assert set(proof.passed()) == {"a", "c"}


def test_another_instruction_set_is_another_proof(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Proof(tmp_path).pytest_runtest_logreport(outcome("a"))
    monkeypatch.setenv("GUESSAHEAD_ISA", "scalar")
    assert Proof(tmp_path).passed() == {}


def test_other_sources_are_another_proof(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "CMakeLists.txt"
    source.write_text("one")
    monkeypatch.setattr("tests.support.proof.ROOT", tmp_path)
    before = Proof(tmp_path).path
    assert Proof(tmp_path).path == before
    source.write_text("two")
    assert Proof(tmp_path).path != before

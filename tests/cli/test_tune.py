"""`guessahead tune`: what it saves, and that it is used afterwards."""

from __future__ import annotations

import codecs
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from guessahead.controller import saved as tuned
from guessahead.engines.machine import package_version
from guessahead.engines.registry import RunSettings
from guessahead.measure.formulas import Costs, VerifyCurve
from guessahead.measure.text_result import Expectation, TextAcceptance
from guessahead.measure.tune import Candidate, best, largest_draft
from guessahead.runners import solo as decoder
from tests.cli.conftest import PROMPT, one_line, run
from tests.support.tiny import TinyModel

SETTING = tuned.Tuned(
    drafter="none",
    gamma=0,
    max_draft=3,
    threads=1,
    alpha=None,
    tau=1.0,
    speedup=1.0,
    c=0.0,
    v={"1": 1.0},
    plain_tokens_per_second=10.0,
    date="2026-11-29T20:00:00+00:00",
    version=package_version(),
)


def tune(tiny: TinyModel, *arguments: str) -> Result:
    quick = ("--num-prompts", "2", "--max-tokens", "12")
    return run("tune", "-m", str(tiny.path), *quick, *arguments)


def generated(tiny: TinyModel, *arguments: str) -> dict[str, Any]:
    result = run("generate", "-m", str(tiny.path), "--max-tokens", "4", "--json", *arguments, PROMPT)
    assert result.exit_code == 0, result.output
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def test_measure_save_show_forget(tiny: TinyModel, untuned: Path) -> None:
    result = tune(tiny, "--drafter", "prompt-lookup")
    assert result.exit_code == 0, result.output
    assert f"saved in {untuned}" in result.stderr
    assert "\nprompt-lookup: alpha " in result.stdout
    saved = tuned.load(str(tiny.path))
    assert saved is not None
    assert saved.drafter in ("none", "prompt-lookup")
    assert saved.v["1"] == 1.0
    assert 1 <= saved.max_draft <= 24
    shown = tune(tiny, "--show", "--json")
    assert json.loads(shown.stdout) | {"key": ""} == json.loads(json.dumps(_as_document(saved)))
    assert "removed" in tune(tiny, "--forget").stderr
    assert tuned.load(str(tiny.path)) is None
    assert "nothing was saved" in tune(tiny, "--forget").stderr
    gone = tune(tiny, "--show")
    assert gone.exit_code == 2
    one_line(gone.stderr, "nothing is saved")


def _as_document(setting: tuned.Tuned) -> dict[str, Any]:
    return {"key": "", **asdict(setting)}


def test_all_drafters_are_tried(tiny: TinyModel, other_tiny: TinyModel) -> None:
    from guessahead.drafters import registry

    result = tune(tiny, "--draft-model", str(other_tiny.path))
    assert result.exit_code == 0, result.output
    for name in registry.names():
        tried = name != "none" and not name.startswith("self-")  # those write into the user's cache
        assert (f"\n{name}: " in result.stdout) == tried, name
    assert tuned.load(str(tiny.path)) is None  # that was for the pair
    assert tuned.load(str(tiny.path), str(other_tiny.path)) is not None


def test_generate_takes_the_saved_drafter(tiny: TinyModel) -> None:
    before = generated(tiny)
    tuned.save(str(tiny.path), None, SETTING)
    after = generated(tiny)
    assert before["stats"]["drafter"] != "none"
    assert after["stats"]["drafter"] == "none"
    assert after["token_ids"] == before["token_ids"]
    assert generated(tiny, "--drafter", "prompt-lookup")["stats"]["drafter"] == "prompt-lookup"


def test_a_file_with_a_byte_order_mark(tiny: TinyModel, untuned: Path) -> None:
    tuned.save(str(tiny.path), None, SETTING)
    untuned.write_bytes(codecs.BOM_UTF8 + untuned.read_bytes())
    assert tuned.load(str(tiny.path)) == SETTING


def test_a_place_that_cannot_be_looked_at(tiny: TinyModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GUESSAHEAD_TUNED", f"/{'x' * 300}/tuned.json")  # too long for a name
    assert len(generated(tiny)["token_ids"]) == 4


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The largest draft of every controller that is made."""
    seen: list[int] = []

    class Watched(decoder.Controller):
        def __init__(self, *arguments: Any, **settings: Any) -> None:
            seen.append(settings["most"])
            super().__init__(*arguments, **settings)

    monkeypatch.setattr(decoder, "Controller", Watched)
    return seen


def test_generate_takes_the_saved_largest_draft(tiny: TinyModel, limits: list[int]) -> None:
    generated(tiny)
    tuned.save(str(tiny.path), None, replace(SETTING, drafter="suffix"))
    for arguments in ((), ("--drafter", "prompt-lookup"), ("--max-draft", "7"), ("--threads", "1")):
        generated(tiny, *arguments)
    assert limits == [24, 3, 3, 7, 3]
    generated(tiny, "--gamma", "4")  # no controller, and no contradiction
    assert limits == [24, 3, 3, 7, 3]
    both = run("generate", "-m", str(tiny.path), "--gamma", "4", "--max-draft", "7", PROMPT)
    assert both.exit_code == 2
    one_line(both.stderr, "max_draft")


def test_chat_takes_the_saved_largest_draft(tiny: TinyModel, limits: list[int]) -> None:
    tuned.save(str(tiny.path), None, replace(SETTING, drafter="suffix"))
    result = run("chat", "-m", str(tiny.path), "--max-tokens", "4", stdin=b"the quick\n/compare\n")
    assert "identical: yes" in result.stderr
    assert limits == [3, 3]


def test_a_setting_for_something_else_is_not_taken(
    tiny: TinyModel, other_tiny: TinyModel, limits: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    tuned.save(str(other_tiny.path), None, SETTING)
    tuned.save(str(tiny.path), str(other_tiny.path), SETTING)
    assert generated(tiny)["stats"]["drafter"] == "portfolio"
    tuned.save(str(tiny.path), None, SETTING)
    for arguments in (("--threads", "2"), ("--activations", "f32")):
        assert generated(tiny, *arguments)["stats"]["drafter"] == "portfolio"
    tuned.save(str(tiny.path), None, replace(SETTING, version="0.0.1"))
    assert generated(tiny)["stats"]["drafter"] == "portfolio"
    tuned.save(str(tiny.path), None, SETTING)
    monkeypatch.setattr(tuned, "cpu_model", lambda: "another machine")
    assert generated(tiny)["stats"]["drafter"] == "portfolio"
    assert limits == [24] * 5


def test_a_pair_takes_the_saved_drafter_that_can_use_it(
    tiny: TinyModel, other_tiny: TinyModel, limits: list[int]
) -> None:
    second = str(other_tiny.path)
    tuned.save(str(tiny.path), second, replace(SETTING, drafter="draft-model"))
    assert generated(tiny, "--draft-model", second)["stats"]["drafter"] == "draft-model"
    tuned.save(str(tiny.path), second, replace(SETTING, drafter="suffix"))
    assert generated(tiny, "--draft-model", second)["stats"]["drafter"] == "portfolio"
    assert limits == [3, 3]


def test_generate_takes_the_saved_threads(tiny: TinyModel, monkeypatch: pytest.MonkeyPatch) -> None:
    from guessahead.models import load as loading

    seen: list[int | None] = []
    load_parts = loading.load_parts

    def watched(model: Any, settings: RunSettings, **rest: Any) -> Any:
        seen.append(settings.threads)
        return load_parts(model, settings, **rest)

    monkeypatch.setattr(loading, "load_parts", watched)
    tuned.save(str(tiny.path), None, SETTING)
    generated(tiny)
    generated(tiny, "--threads", "2")
    assert seen == [1, 2]


def test_a_broken_file_counts_as_empty(tiny: TinyModel, untuned: Path) -> None:
    good = {tuned.key(str(tiny.path)): {**_as_document(SETTING)}}
    for text in ("{", "[1]", json.dumps({tuned.key(str(tiny.path)): 3}), json.dumps(good), "\x00"):
        untuned.write_text(text)
        assert tuned.load(str(tiny.path)) is None
    tuned.save(str(tiny.path), None, SETTING)
    assert tuned.load(str(tiny.path)) == SETTING


def test_settings_of_other_models_stay(tiny: TinyModel) -> None:
    tuned.save("smollm2-135m", None, SETTING)
    tuned.save(str(tiny.path), None, SETTING)
    assert tuned.forget(str(tiny.path))
    assert tuned.load("smollm2-135m") == SETTING


def test_a_place_that_cannot_be_written(tiny: TinyModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GUESSAHEAD_TUNED", "/proc/nowhere/tuned.json")
    result = tune(tiny, "--drafter", "prompt-lookup")
    assert result.exit_code == 2
    one_line(result.stderr, "cannot be written")


def test_the_default_file_is_in_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("GUESSAHEAD_TUNED")
    monkeypatch.setenv("GUESSAHEAD_CACHE", str(tmp_path))
    assert tuned.path() == tmp_path / "tuned.json"


def test_errors(tiny: TinyModel) -> None:
    for arguments, words in (
        (("--show", "--forget"), ("cannot be used together",)),
        (("--drafter", "nobody"), ("nobody",)),
        (("--prompts", "missing.jsonl"), ("cannot be read",)),
    ):
        result = tune(tiny, *arguments)
        assert result.exit_code == 2
        one_line(result.stderr, *words)


def _candidate(name: str, speedup: float, gamma: int = 2) -> Candidate:
    found = TextAcceptance(name, 10, 10, (10,), (5.0,), (), 0.0)
    return Candidate(name, found, Costs(), Expectation(gamma, speedup, speedup))


def test_the_largest_draft_is_what_the_machine_can_use() -> None:
    assert largest_draft(VerifyCurve({1: 1.0, 2: 1.05, 25: 1.05})) == 24, "rows are free"
    assert largest_draft(VerifyCurve({1: 1.0, 9: 1.2, 25: 20.0})) == 8, "and then they are dear"
    assert largest_draft(VerifyCurve({1: 1.0, 9: 1.8, 25: 5.0})) in (7, 8), "beyond, nothing is gained"
    assert largest_draft(VerifyCurve()) == 1


def test_the_best_drafter_must_be_worth_it() -> None:
    failed = Candidate("failed", problem="no")
    top = best([failed, _candidate("slow", 1.2), _candidate("fast", 1.5)])
    assert top is not None
    assert top.drafter == "fast"
    assert best([failed, _candidate("hardly", 1.01)]) is None
    assert best([failed, _candidate("never", 1.0, gamma=0)]) is None
    assert best([]) is None

"""`guessahead bench`: what the document holds, and that a difference cannot hide."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import pytest

from guessahead import Generation, LanguageModel
from tests.measure.bench.conftest import WORKLOAD, Bench, planted, run
from tests.support.second_tokenizer import with_other_tokenizer
from tests.support.tiny import TinyModel


def test_rows_are_prompts_times_drafters(bench: Bench) -> None:
    result, document = bench("--drafters", "prompt-lookup")
    assert result.exit_code == 0
    found = [(row["prompt_id"], row["category"], row["drafter"]) for row in document["rows"]]
    assert found == [
        (name, category, drafter) for name, category, _ in WORKLOAD for drafter in ("none", "prompt-lookup")
    ]
    assert all(row["identical"] and row["first_difference"] is None for row in document["rows"])
    assert document["identical"] == {"num_identical": 6, "num_rows": 6}
    assert "identical: 6/6" in result.stderr


def test_ratios_are_over_plain_of_the_same_prompt(bench: Bench) -> None:
    _, document = bench("--drafters", "prompt-lookup")
    plain = {row["prompt_id"]: row for row in document["rows"] if row["drafter"] == "none"}
    ratios = []
    for row in document["rows"]:
        own = plain[row["prompt_id"]]
        expected = row["tokens_per_second"] / own["tokens_per_second"]
        assert row["ratio_to_plain"] == pytest.approx(expected)
        assert row["num_tokens"] == own["num_tokens"]
        if row["drafter"] != "none" and row["category"] == "animals":
            ratios.append(expected)
    [category] = [
        entry
        for entry in document["categories"]
        if (entry["category"], entry["drafter"]) == ("animals", "prompt-lookup")
    ]
    assert category["num_prompts"] == 2
    assert category["ratio_to_plain"] == pytest.approx(geometric_mean(ratios))


def test_plain_runs_against_itself(bench: Bench) -> None:
    _, document = bench("--drafters", "none")
    null = document["null"]
    ratios = [row["ratio_to_plain"] for row in null["rows"]]
    assert [row["prompt_id"] for row in null["rows"]] == [name for name, _, _ in WORKLOAD]
    assert all(ratio != 1.0 for ratio in ratios), "the null must be a measurement of its own"
    assert (null["lowest"], null["highest"]) == (min(ratios), max(ratios))
    assert null["ratio_to_plain"] == pytest.approx(geometric_mean(ratios))


def test_a_pair_predicts_and_measures(bench: Bench, tiny: TinyModel) -> None:
    """The model as its own draft model: alpha 1, tau near gamma + 1, and a c that is far from 0."""
    _, document = bench("--draft-model", str(tiny.path), "--fixed-length", "--gamma", "2")
    assert {row["drafter"] for row in document["rows"]} >= {"none", "prompt-lookup", "draft-model"}
    rows = [row for row in document["rows"] if row["drafter"] == "draft-model"]
    for row in rows:
        assert row["num_tokens"] == 12
        assert (row["alpha"], row["tau"]) == (1.0, pytest.approx(11 / 4))
        assert row["predicted_tau"] == pytest.approx(row["tau"], rel=0.1)
        assert row["c"] > 0.1
        assert row["predicted_ratio"] > 0
    assert [row["rows"] for row in document["passes"]["rows"]] == [1, 2, 3]
    assert document["passes"]["rows"][0]["v"] == 1.0
    assert document["passes"]["identical"] is True


def test_sampled_answers_differ_from_greedy_ones_and_are_identical(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound, texts = LanguageModel.generate, set()

    def generate(self: LanguageModel, *arguments: Any, **options: Any) -> Generation:
        answer = sound(self, *arguments, **options)
        texts.add(answer.token_ids)
        return answer

    monkeypatch.setattr(LanguageModel, "generate", generate)
    for how in ((), ("--sampled",)):
        _, document = bench("--drafters", "prompt-lookup", "--only", "loop", "--fixed-length", *how)
        assert document["identical"] == {"num_identical": 2, "num_rows": 2}
    assert len(texts) == 2


def test_what_is_drawn_is_not_compared_and_all_else_is(
    bench: Bench, other_tiny: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound, texts = LanguageModel.generate, {}

    def generate(self: LanguageModel, prompt: Any, **options: Any) -> Generation:
        answer = sound(self, prompt, **options)
        assert options["acceptance"] == "rejection"
        texts[prompt, options["drafter"]] = answer.token_ids
        return answer

    monkeypatch.setattr(LanguageModel, "generate", generate)
    second = ("--draft-model", str(other_tiny.path), "--drafters", "prompt-lookup,draft-model")
    result, document = bench(*second, "--gamma", "3", "--sampled", "--acceptance", "rejection")
    assert result.exit_code == 0
    prompts = [prompt for _, _, prompt in WORKLOAD]
    assert any(texts[prompt, "draft-model"] != texts[prompt, "none"] for prompt in prompts)
    assert document["acceptance"] == "rejection"
    assert document["identical"] == {"num_identical": 6, "num_rows": 6}
    for row in document["rows"]:
        assert row["identical"] is (None if row["drafter"] == "draft-model" else True)
        assert row["first_difference"] is None
    assert [each["num_rows"] for each in document["drafters"]] == [3, 3, 0]
    assert "identical: 6/6" in result.stderr
    assert "not compared: draft-model (acceptance 'rejection' gives other texts" in result.stderr


def test_greedy_text_is_compared_whatever_the_acceptance(bench: Bench, other_tiny: TinyModel) -> None:
    second = ("--draft-model", str(other_tiny.path), "--drafters", "draft-model")
    result, document = bench(*second, "--gamma", "3", "--acceptance", "rejection")
    assert document["identical"] == {"num_identical": 6, "num_rows": 6}
    assert "not compared" not in result.stderr


def test_a_drafter_that_cannot_draw_is_refused(bench: Bench, tiny: TinyModel, tmp_path: Path) -> None:
    other = with_other_tokenizer(tiny.path, tmp_path / "other.gguf")
    arguments = ("--draft-model", str(other), "--sampled", "--acceptance", "rejection")
    result = run("bench", "-m", str(tiny.path), *arguments)
    assert result.exit_code == 2
    assert "'draft-model' (another tokenizer" in result.stderr
    assert "'rejection'" in result.stderr


@pytest.mark.parametrize("how", [(), ("--sampled", "--acceptance", "rejection")], ids=["greedy", "rejection"])
def test_a_planted_difference_is_counted(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, how: tuple[str, ...]
) -> None:
    name, _, prompt = WORKLOAD[1]
    monkeypatch.setattr("guessahead.model.LanguageModel.generate", planted(prompt, "prompt-lookup"))
    result, document = bench("--drafters", "prompt-lookup", *how)
    assert result.exit_code == 1
    assert "identical: 5/6" in result.stderr
    assert document["identical"] == {"num_identical": 5, "num_rows": 6}
    [row] = [row for row in document["rows"] if not row["identical"]]
    assert (row["prompt_id"], row["drafter"]) == (name, "prompt-lookup")
    assert row["first_difference"] == row["num_tokens"] - 1


def test_the_document_goes_to_a_file(bench: Bench, tmp_path: Path, tiny: TinyModel, workload: Path) -> None:
    target = tmp_path / "out.json"
    arguments = ("--prompts", str(workload), "--only", "loop", "--max-tokens", "4", "--repeat", "1")
    result = run("bench", "-m", str(tiny.path), *arguments, "--json", str(target))
    assert (result.exit_code, result.stdout) == (0, "")
    document = json.loads(target.read_text())
    assert {row["prompt_id"] for row in document["rows"]} == {"loop"}


def test_provenance(bench: Bench) -> None:
    origin = bench("--only", "loop", "--drafters", "none", "--threads", "1")[1]["provenance"]
    assert origin["threads"] == 1
    assert origin["machine"]["cpu"]
    assert origin["machine"]["num_cores"] >= 1
    assert set(origin["packages"]) == {"python", "numpy", "tokenizers"}
    assert "unknown" not in (origin["packages"]["numpy"], origin["isa"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--drafters", "nobody"), "unknown drafter 'nobody'"),
        (("--drafters", "draft-model"), "needs a second model"),
        (("--drafters", "a,,b"), "not a list of names"),
        (("--only", "nothing"), "no prompt or category 'nothing'"),
        (("--prompts", "/nowhere.jsonl"), "/nowhere.jsonl cannot be read"),
    ],
)
def test_what_cannot_be_is_refused(tiny: TinyModel, arguments: tuple[str, ...], words: str) -> None:
    result = run("bench", "-m", str(tiny.path), *arguments)
    assert result.exit_code == 2
    assert words in result.stderr
    assert result.stdout == ""


def test_options_before_a_sub_command_are_refused(tiny: TinyModel) -> None:
    result = run("bench", "-m", str(tiny.path), "passes")
    assert result.exit_code == 2
    assert "must come after 'passes'" in result.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"id": "a", "category": "b"}', "line 1: expected an object with the texts id, category, prompt"),
        ('{"id": "a", "category": "b", "prompt": ""}', "line 1: expected"),
        ("[]", "line 1: expected"),
        ("nonsense", "line 1: expected"),
        ('\n{"id": "a", "category": "b", "prompt": "c"}\n' * 2, "line 4: the id 'a' appears twice"),
        ("", "contains no prompt"),
    ],
)
def test_a_bad_workload_names_the_line(tiny: TinyModel, tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(text)
    result = run("bench", "-m", str(tiny.path), "--prompts", str(path))
    assert result.exit_code == 2
    assert words in result.stderr

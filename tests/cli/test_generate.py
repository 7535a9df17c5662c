"""`guessahead generate`: what goes where, and that every option does what it says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tests.cli.conftest import PROMPT, run
from tests.support.tiny import TinyModel

Generate = Callable[..., Result]
Document = Callable[..., dict[str, Any]]
SAMPLED = ("--temperature", "1.5", "--seed", "7")


def test_the_answer_goes_to_stdout_and_the_figures_to_stderr(generate: Generate, document: Document) -> None:
    result = generate()
    assert result.exit_code == 0
    text = document()["text"]
    assert result.stdout == text if text.endswith("\n") else text + "\n"
    for label in ("speed", "tokens", "prompt-lookup", "passes", "memory"):
        assert f"\n  {label} " in result.stderr
    assert "24 after" in result.stderr


def test_stdin(generate: Generate, document: Document) -> None:
    given = document()
    read = document(prompt="-", stdin=PROMPT.encode() + b"\n")
    assert read["token_ids"] == given["token_ids"]
    assert read["num_prompt_tokens"] == given["num_prompt_tokens"]
    raw = document("--raw", prompt="-", stdin=PROMPT.encode() + b"\n")
    assert raw["num_prompt_tokens"] == document("--raw")["num_prompt_tokens"] + 1  # the newline counts


def test_max_tokens(document: Document) -> None:
    shorter = document("--max-tokens", "5")
    assert len(shorter["token_ids"]) == 5
    assert shorter["finish_reason"] == "length"


@pytest.mark.parametrize(
    "option",
    [
        ("--raw",),
        ("--system", "be quick"),
        ("--logit-bias", "65=50"),
        ("--repetition-penalty", "3"),
        ("--frequency-penalty", "2"),
        ("--presence-penalty", "2"),
        ("--activations", "f32"),
    ],
    ids=lambda option: option[0],
)
def test_an_option_changes_the_greedy_answer(document: Document, option: tuple[str, ...]) -> None:
    # A text that repeats one token, so that penalties have something to say.
    favoured = () if "--logit-bias" in option else ("--logit-bias", "70=14")
    settings = ("--max-tokens", "100", *favoured)
    assert document(*settings, *option)["token_ids"] != document(*settings)["token_ids"]


@pytest.mark.parametrize(
    "option",
    [("--top-k", "2"), ("--top-p", "0.3"), ("--min-p", "0.5"), ("--seed", "8"), ("--temperature", "0.3")],
    ids=lambda option: option[0],
)
def test_an_option_changes_the_sampled_answer(document: Document, option: tuple[str, str]) -> None:
    sampled = document(*SAMPLED, "--max-tokens", "60")
    assert document(*SAMPLED, "--max-tokens", "60")["token_ids"] == sampled["token_ids"]
    assert document(*SAMPLED, "--max-tokens", "60", *option)["token_ids"] != sampled["token_ids"]


def test_logit_bias_is_repeatable(document: Document) -> None:
    token_ids = document("--logit-bias", "70=60", "--logit-bias", "71=100")["token_ids"]
    assert set(token_ids) == {71}


def test_min_tokens_keeps_the_end_away(document: Document) -> None:
    end = ("--logit-bias", f"{_END}=100")
    assert document(*end)["token_ids"] == [_END]
    later = document(*end, "--min-tokens", "3")
    assert len(later["token_ids"]) == 4
    assert later["finish_reason"] == "eos"


_END = 256 + 60 + 2  # <|im_end|>


def test_stop_is_repeatable(document: Document) -> None:
    text = document("--max-tokens", "60")["text"]
    first, second = text[10:12], text[20:22]
    stopped = document("--max-tokens", "60", "--stop", second, "--stop", first)
    assert stopped["finish_reason"] == "stop"
    assert stopped["text"] == text[: min(text.index(first), text.index(second))]


def test_context(document: Document) -> None:
    used = document("--raw")["num_prompt_tokens"]
    full = document("--raw", "--context", str(used + 3))
    assert len(full["token_ids"]) == 3
    assert full["finish_reason"] == "context"


def test_threads_do_not_change_the_answer(document: Document) -> None:
    assert document("--threads", "1")["token_ids"] == document("--threads", "2")["token_ids"]


REPEATING = ("--logit-bias", "70=100")


def test_gamma(document: Document) -> None:
    for gamma in (0, 1, 3):
        stats = document(*REPEATING, "--gamma", str(gamma))["stats"]
        assert stats["gamma"] == gamma
        assert len(stats["tested_at"]) == gamma


def test_drafter(document: Document) -> None:
    plain = document(*REPEATING, "--drafter", "none")
    guessed = document(*REPEATING, "--drafter", "prompt-lookup")
    assert plain["stats"]["tau"] == 1.0
    assert guessed["stats"]["tau"] > 2.0
    assert guessed["token_ids"] == plain["token_ids"]


def test_drafter_options(document: Document) -> None:
    """prompt-lookup matches n tokens only if so many are there: it begins the later the more it wants."""
    drafted = [
        document(*REPEATING, "-o", f"min_ngram={size}", "-o", "max_ngram=20")["stats"]["num_drafted"]
        for size in (1, 5, 15)
    ]
    assert drafted[0] > drafted[1] > drafted[2]


def test_draft_model(document: Document, tiny: TinyModel, other_tiny: TinyModel) -> None:
    plain = document()
    itself = document("--drafter", "draft-model", "--draft-model", str(tiny.path))
    other = document("--drafter", "draft-model", "--draft-model", str(other_tiny.path))
    beside = document("--draft-model", str(other_tiny.path))
    assert plain["token_ids"] == itself["token_ids"] == other["token_ids"] == beside["token_ids"]
    assert itself["stats"]["drafter"] == other["stats"]["drafter"] == "draft-model"
    assert beside["stats"]["drafter"] == "portfolio", "it uses a second model, too"
    assert itself["stats"]["alpha"] == 1.0
    assert other["stats"]["alpha"] < 1.0


def test_acceptance(document: Document, other_tiny: TinyModel) -> None:
    drafting = ("--drafter", "draft-model", "--draft-model", str(other_tiny.path), "--gamma", "3")
    classic = ("--acceptance", "rejection")
    assert document(*drafting, *classic)["token_ids"] == document(*drafting)["token_ids"], "greedy"
    ours = document(*drafting, *classic, *SAMPLED)
    assert ours["token_ids"] != document(*drafting, *SAMPLED)["token_ids"]
    assert ours["token_ids"] == document(*drafting, *classic, *SAMPLED)["token_ids"]
    assert ours["stats"]["num_drafted"] > 0
    undrawn = ("--drafter", "suffix", *SAMPLED)
    assert document(*undrawn, *classic)["token_ids"] == document(*undrawn)["token_ids"]


def test_model_takes_a_file(tiny: TinyModel, other_tiny: TinyModel) -> None:
    one = run("generate", "-m", str(tiny.path), "--max-tokens", "9", PROMPT)
    other = run("generate", "--model", str(other_tiny.path), "--max-tokens", "9", PROMPT)
    assert one.exit_code == other.exit_code == 0
    assert one.stdout != other.stdout


def test_a_fresh_seed_is_told_and_repeats_the_answer(generate: Generate) -> None:
    first = generate("--temperature", "1.5")
    [line] = [line for line in first.stderr.splitlines() if line.startswith("  seed ")]
    again = generate("--temperature", "1.5", "--seed", line.split()[1])
    assert again.stdout == first.stdout
    assert "  seed " not in again.stderr


def test_trace_is_the_whole_story(document: Document, tmp_path: Path) -> None:
    import json

    path = tmp_path / "trace.json"
    answer = document(*REPEATING, "--trace", str(path))
    trace = json.loads(path.read_text())
    assert trace["drafter"] == "prompt-lookup"
    assert trace["finish_reason"] == "length"
    assert len(trace["prompt_token_ids"]) == answer["num_prompt_tokens"]
    assert [token for step in trace["steps"] for token in step["token_ids"]] == answer["token_ids"]
    assert {step["kind"] for step in trace["steps"]} <= {"plain", "correction", "bonus", "cut"}
    for step in trace["steps"]:
        assert len(step["rows"]) == step["num_committed_rows"] + len(step["draft"]["token_ids"])
        assert len(step["origins"]) == len(step["token_ids"])
        assert set(step["seconds"]) == {"propose", "forward", "rest"}

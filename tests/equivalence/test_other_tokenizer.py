"""A draft model with another tokenizer: the text stays the target's, and what it says is used.

The grid has worlds of two tokenizers, too (grid.py, `text_world`); here is what only concerns them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import guessahead as ga
from guessahead.drafters import registry
from guessahead.drafters.base import DrafterResources
from guessahead.drafters.text_draft import TextDraftModel
from guessahead.errors import ParameterError
from guessahead.types import Ask, ChoiceContext, Float32, Gamma, Generation, SamplingParams
from tests.conftest import Report
from tests.support.fake_text import FakeTokenizer, letters
from tests.support.fakes import ScriptEngine, decode, request
from tests.support.fakes import plain as plain_decoding
from tests.support.rewriting import rewrite
from tests.support.second_tokenizer import with_other_tokenizer
from tests.support.tiny import tiny_gguf

PROMPTS = (
    "the quick brown fox jumps over the",
    "a \U0001f600\u4e2d\u6587 and \u20ac <|im_start|>",
    "  def x(",
)


def quiet(source: Path, target: Path) -> Path:
    """The model again, never choosing bytes beyond ASCII: its text is text."""

    def change(name: str, values: Float32) -> Float32:
        if name == "output.weight":
            values[128:256] = 0.0
        return values

    return rewrite(source, target, change)


@pytest.fixture(scope="module", params=["text", "bytes"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: Any) -> tuple[ga.LanguageModel, ga.LanguageModel]:
    folder = tmp_path_factory.mktemp("pair")
    path = tiny_gguf(folder / "target.gguf", seed=3).path
    if request.param == "text":
        path = quiet(path, folder / "quiet.gguf")
    other = with_other_tokenizer(path, folder / "draft.gguf")
    return ga.load(path, threads=1), ga.load(other, threads=1)


def both(pair: Any, **settings: Any) -> Iterator[tuple[Generation, Generation]]:
    target, draft = pair
    for seed, prompt in enumerate(PROMPTS):
        asked: dict[str, Any] = {"raw": True, "max_tokens": 40, "seed": seed, "logprobs": 1} | settings
        plain = target.generate(prompt, **asked | {"drafter": "none"})
        yield plain, target.generate(prompt, draft_model=draft, **{"drafter": "draft-model"} | asked)


@pytest.mark.parametrize("gamma", [1, 4, 9, "auto"])
@pytest.mark.parametrize("sampling", [{}, {"temperature": 0.9, "repetition_penalty": 1.2}], ids=str)
def test_the_text_is_the_targets(pair: Any, sampling: dict[str, Any], gamma: Gamma) -> None:
    num_accepted, is_text = 0, pair[0].name == "quiet"
    for expected, found in both(pair, gamma=gamma, **sampling):
        assert found.token_ids == expected.token_ids
        assert (found.text, found.logprobs) == (expected.text, expected.logprobs)
        assert found.stats.note == "another tokenizer: drafts as text"
        num_accepted += found.stats.num_accepted
    assert num_accepted > 0 or gamma == "auto" or not is_text


def test_a_portfolio_takes_it_too(pair: Any) -> None:
    for expected, found in both(pair, drafter="portfolio", gamma=5):
        assert found.token_ids == expected.token_ids
        assert "draft-model: another tokenizer" in found.stats.note


ALPHABET = letters(26)


def fakes(script: list[int], shift: int, **limits: int) -> tuple[Any, Any, FakeTokenizer]:
    """A target and a draft model that say the same; a letter's id is `shift` higher in the draft model."""
    tokenizer = FakeTokenizer([b"~"] * shift + ALPHABET.pieces)
    return (
        ScriptEngine(script, 26),
        ScriptEngine([i + shift for i in script], 26 + shift, **limits),
        tokenizer,
    )


def drafter(engine: Any, second: Any, tokenizer: Any, **options: Any) -> TextDraftModel:
    setup = DrafterResources(engine, second, ALPHABET, draft_tokenizer=tokenizer)  # type: ignore[arg-type]
    made = registry.make("draft-model", options, setup)
    assert isinstance(made, TextDraftModel)
    return made


def test_a_model_that_says_the_same_is_always_right() -> None:
    """And its cache keeps what was right: after the prompt it reads a token or two in each pass."""
    engine, second, tokenizer = fakes([3, 1, 20, 4, 5, 16, 2], 2)
    asked = request([1, 2, 3], 200, 4)
    found = decode(engine, drafter(engine, second, tokenizer), ALPHABET, asked)
    assert found.token_ids == plain_decoding(engine, ALPHABET, asked).token_ids
    assert found.stats.alpha == 1.0
    assert max(len(rows.token_ids) for rows in second.calls[1:]) <= 2
    assert second.num_open == 0


def test_after_a_wrong_guess_its_cache_is_put_right() -> None:
    engine, second, tokenizer = fakes([3, 1, 20, 4, 5, 16, 2], 2)
    wrong = drafter(engine, second, tokenizer)
    propose = wrong.propose

    def slipping(ask: Ask) -> Any:
        draft = propose(ask)
        if len(ask.context.history) % 3 == 0:
            draft.token_ids[-1] = (draft.token_ids[-1] + 1) % 26
        return draft

    wrong.propose = slipping  # type: ignore[method-assign]
    asked = request([1, 2, 3], 120, 4)
    found = decode(engine, wrong, ALPHABET, asked)
    assert found.token_ids == plain_decoding(engine, ALPHABET, asked).token_ids
    stats = found.stats
    assert 0 < stats.num_tested - stats.num_accepted <= stats.num_steps, "only what was made wrong is wrong"


@pytest.mark.parametrize("context", [3, 20, 43])
def test_drafting_ends_where_the_context_of_the_draft_model_does(context: int) -> None:
    engine, second, tokenizer = fakes([3, 1, 20, 4, 5], 1, context_length=context)
    asked = request([1, 2, 3], 60, 4)
    found = decode(engine, drafter(engine, second, tokenizer), ALPHABET, asked)
    assert found.token_ids == plain_decoding(engine, ALPHABET, asked).token_ids
    assert found.stats.num_drafted < 60
    assert (found.stats.num_drafted > 0) == (context > 3)


def test_siblings_are_of_the_target() -> None:
    engine, second, tokenizer = fakes([3, 1, 20, 4], 2)
    logits_after: Callable[..., Float32] = second.logits_after

    def doubtful(token_ids: tuple[int, ...]) -> Float32:
        logits = logits_after(token_ids)
        logits[2 + 25] = logits.max() - 0.5  # Z is nearly as likely
        return logits

    second.logits_after = doubtful
    for siblings in (0, 1):
        made = drafter(engine, second, tokenizer, siblings=siblings)
        choice = ChoiceContext(SamplingParams(), np.array([1, 2, 3], np.int32), 1)
        made.begin(choice)
        draft = made.propose(Ask(choice, 8))
        made.end()
        beside = [] if draft.parents is None else draft.parents.tolist()
        assert sorted(beside).count(-1) == 2 * siblings
        assert (draft.token_ids == 25).sum() == siblings


def test_options_and_settings_that_cannot_be_honoured(pair: Any) -> None:
    target, draft = pair
    with pytest.raises(ParameterError, match="bits a weight already"):
        target.generate(
            "a", raw=True, drafter="draft-model", draft_model=draft, drafter_options={"precision": "q4"}
        )


@pytest.mark.model
@pytest.mark.parametrize(
    ("target", "draft"),
    [("smollm2-135m", "qwen2.5-coder-0.5b"), ("qwen2.5-coder-0.5b", "smollm2-135m")],
)
def test_real_models_of_two_families(target: str, draft: str, report: Report) -> None:
    """Code, and characters of several tokens, greedy and sampled."""
    lm, other = ga.load(target, context=1024), ga.load(draft, context=1024)
    prompts = (
        "Write a Python function that returns the n-th Fibonacci number, with a docstring.",
        "Write the numbers 1 to 9 in Chinese characters, each with an emoji.",
    )
    for sampling in ({}, {"temperature": 0.8, "top_p": 0.95}):
        num_tested = num_accepted = 0
        for prompt in prompts:
            settings: dict[str, Any] = {"max_tokens": 64, "seed": 1} | sampling
            plain = lm.generate(prompt, drafter="none", **settings)
            for gamma in (4, "auto"):
                ours = lm.generate(prompt, drafter="draft-model", draft_model=other, gamma=gamma, **settings)
                assert ours.token_ids == plain.token_ids
                assert (ours.text, ours.finish_reason) == (plain.text, plain.finish_reason)
                assert ours.stats.note == "another tokenizer: drafts as text"
                num_tested += ours.stats.num_tested
                num_accepted += ours.stats.num_accepted
        report(f"{draft} for {target}, {sampling or 'greedy'}: alpha {num_accepted / num_tested:.2f}")
        assert num_accepted > 0.2 * num_tested

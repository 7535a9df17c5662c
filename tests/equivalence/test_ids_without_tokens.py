"""Ids that are rows of the model's matrices but no tokens, and tokens that have no row.

The first decode to nothing and generation goes on, as in transformers (whose `decode` leaves them out); the
second are told where a prompt asks for them, and never guessed.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest
import tokenizers

import guessahead as ga
from guessahead.errors import ParameterError, PromptError
from guessahead.types import Generation
from tests.checkpoints.folders.making import write_folder
from tests.support.rewriting import with_tokens
from tests.support.second_tokenizer import with_other_tokenizer
from tests.support.tiny import NUM_TOKENS, tiny_gguf

NUM_ROWS = NUM_TOKENS + 20
PADDING = range(NUM_TOKENS, NUM_ROWS)
OFTEN = dict.fromkeys(PADDING, 12.0)
"""A bias with which about half of the chosen ids are padding."""
PROMPT = "the quick brown fox jumps over the quick brown fox"
SAMPLED = {"temperature": 0.9, "repetition_penalty": 1.2, "seed": 3}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def padded(folder: Path) -> Path:
    """A file with fewer tokens than rows."""
    full = tiny_gguf(folder / "full.gguf", vocab=NUM_ROWS, seed=5).path
    return with_tokens(full, folder / "padded.gguf", NUM_TOKENS)


@pytest.fixture(scope="module")
def draft_models(folder: Path, padded: Path) -> dict[str, ga.LanguageModel]:
    """Fewer rows, more rows, another tokenizer, and more tokens than rows."""
    small = tiny_gguf(folder / "small.gguf", seed=5).path
    large = tiny_gguf(folder / "large.gguf", vocab=NUM_ROWS + 50, seed=5).path
    paths = {
        "fewer rows": small,
        "more rows": with_tokens(large, folder / "more.gguf", NUM_TOKENS),
        "more tokens": with_tokens(small, folder / "tokens.gguf", NUM_ROWS),
        "other tokenizer": with_other_tokenizer(small, folder / "other.gguf"),
    }
    return {name: ga.load(path, threads=1) for name, path in paths.items()}


def settings(**changes: Any) -> dict[str, Any]:
    return {"raw": True, "max_tokens": 40, "logprobs": 3, "drafter": "none"} | changes


def check(lm: ga.LanguageModel, found: Generation, of_folder: Path | None = None) -> None:
    """What was generated has padding in it, which is not in the text."""
    num_padding = sum(token_id in PADDING for token_id in found.token_ids)
    assert 5 < num_padding < len(found.token_ids)
    assert found.text == lm.tokenizer.decode(found.token_ids)
    assert lm.tokenizer.decode(list(PADDING), skip_special=False) == ""
    assert found.finish_reason == "length"
    assert found.logprobs is not None
    named = {token_id for each in found.logprobs for token_id, _ in each.top}
    assert named & set(PADDING)
    if of_folder is not None:
        library = tokenizers.Tokenizer.from_file(str(of_folder / "tokenizer.json"))
        assert found.text == library.decode(list(found.token_ids), skip_special_tokens=True)


@pytest.mark.parametrize("sampling", [{}, SAMPLED], ids=["greedy", "sampled"])
def test_padding_decodes_to_nothing(folder: Path, padded: Path, sampling: dict[str, Any]) -> None:
    lm = ga.load(padded, threads=1)
    check(lm, lm.generate(PROMPT, **settings(logit_bias=OFTEN, **sampling)))


def test_a_folder_of_the_hub_is_decoded_as_its_library_does(folder: Path) -> None:
    """Every Qwen 2.5 folder has fewer tokens than rows."""
    model = tiny_gguf(folder / "for-folder.gguf", "qwen2", format="F32", vocab=NUM_ROWS, seed=5)
    path = write_folder(folder / "qwen", model)
    lm = ga.load(path, threads=1)
    for sampling in ({}, SAMPLED):
        check(lm, lm.generate(PROMPT, **settings(logit_bias=OFTEN, **sampling)), path)
    assert [lm.tokenizer.token_text(i) for i in (NUM_TOKENS - 1, NUM_TOKENS)] == [
        "<|tool|>",
        f"[PAD{NUM_TOKENS}]",
    ]
    with pytest.raises(ParameterError, match=f"id {NUM_ROWS} is outside"):
        lm.tokenizer.decode([NUM_ROWS])


@pytest.mark.parametrize("gamma", [1, 5, "auto"])
@pytest.mark.parametrize("drafter", ["prompt-lookup", "suffix", "portfolio", "self-q8"])
def test_drafters_guess_padding_too(
    padded: Path, drafter: str, gamma: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GUESSAHEAD_CACHE", str(tmp_path))
    lm = ga.load(padded, threads=1)
    for sampling in ({}, SAMPLED):
        asked = settings(logit_bias=OFTEN, **sampling)
        plain = lm.generate(PROMPT, **asked)
        check(lm, plain)
        found = lm.generate(PROMPT, **asked | {"drafter": drafter, "gamma": gamma})
        assert (found.token_ids, found.text, found.logprobs) == (plain.token_ids, plain.text, plain.logprobs)


@pytest.mark.parametrize("name", ["fewer rows", "more rows", "more tokens", "other tokenizer"])
def test_a_draft_model_of_another_size(padded: Path, draft_models: dict[str, Any], name: str) -> None:
    lm, num_accepted = ga.load(padded, threads=1), 0
    for sampling, drafter, biased in product(({}, SAMPLED), ("draft-model", "portfolio"), (True, False)):
        asked = settings(**sampling) | ({"logit_bias": OFTEN} if biased else {})
        plain = lm.generate(PROMPT, **asked)
        found = lm.generate(
            PROMPT, **asked | {"drafter": drafter, "draft_model": draft_models[name], "gamma": 4}
        )
        assert (found.token_ids, found.text, found.logprobs) == (plain.token_ids, plain.text, plain.logprobs)
        num_accepted += found.stats.num_accepted
    assert num_accepted > 0


def test_rejection_sampling_with_a_draft_model_of_another_size(
    padded: Path, draft_models: dict[str, Any]
) -> None:
    lm = ga.load(padded, threads=1)
    for name in ("fewer rows", "more rows"):
        found = lm.generate(
            PROMPT,
            **settings(logit_bias=OFTEN, **SAMPLED, gamma=4, acceptance="rejection")
            | {"drafter": "draft-model", "draft_model": draft_models[name]},
        )
        check(lm, found)


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_padding_may_end_a_text(folder: Path, tmp_path: Path, kind: str) -> None:
    """An id that ends a text needs a row, not a token."""
    end = NUM_TOKENS + 7
    if kind == "file":
        full = tiny_gguf(tmp_path / "full.gguf", vocab=NUM_ROWS, seed=5).path
        path = with_tokens(full, tmp_path / "ends.gguf", NUM_TOKENS, eos=end)
    else:
        model = tiny_gguf(tmp_path / "full.gguf", "qwen2", format="F32", vocab=NUM_ROWS, seed=5)
        path = write_folder(tmp_path / "ends", model, eos_token_id=[end, 1 << 30])
    lm = ga.load(path, threads=1)
    assert end in lm.tokenizer.eos_ids
    found = lm.generate(PROMPT, **settings(logit_bias={end: 100.0}, min_tokens=3))
    assert (found.finish_reason, found.token_ids[-1], len(found.token_ids)) == ("eos", end, 4)
    assert found.text == lm.tokenizer.decode(found.token_ids[:-1])


def test_a_prompt_of_padding_runs(padded: Path) -> None:
    lm = ga.load(padded, threads=1)
    assert lm.generate([NUM_ROWS - 1, NUM_TOKENS], **settings(raw=False)).num_prompt_tokens == 2
    with pytest.raises(PromptError, match=f"prompt token {NUM_ROWS} is not an id from 0 to {NUM_ROWS - 1}"):
        lm.generate([NUM_ROWS], **settings(raw=False))
    with pytest.raises(ParameterError, match="logit_bias token id"):
        lm.generate(PROMPT, **settings(logit_bias={NUM_ROWS: 1.0}))


def test_more_tokens_than_rows(folder: Path, tmp_path: Path) -> None:
    """It runs as long as a prompt has no token without a row; drafters with other texts never guess one."""
    small = tiny_gguf(tmp_path / "small.gguf", seed=5).path
    lm = ga.load(with_tokens(small, tmp_path / "more.gguf", NUM_TOKENS + 30), threads=1)
    (tmp_path / "corpus.txt").write_text("the quick<extra 3> brown<extra 3> fox<extra 3>" * 20)
    plain = lm.generate(PROMPT, **settings())
    assert plain.text == ga.load(small, threads=1).generate(PROMPT, **settings()).text
    for options in ({}, {"corpus": str(tmp_path / "corpus.txt")}):
        found = lm.generate(PROMPT, **settings(drafter="suffix", gamma=5, drafter_options=options))
        assert (found.token_ids, found.logprobs) == (plain.token_ids, plain.logprobs)
    for prompt, raw in (
        ("a <extra 3>", True),
        ("a <extra 3>", False),
        ([{"role": "user", "content": "<extra 3>"}], False),
    ):
        with pytest.raises(
            PromptError, match=rf"the token '<extra 3>' \(id {NUM_TOKENS + 3}\), which the model lacks"
        ):
            lm.generate(prompt, **settings(raw=raw))


def test_a_draft_model_whose_tokenizer_has_more_tokens_than_rows(padded: Path, tmp_path: Path) -> None:
    """Where the text has such a token, it stops guessing."""
    small = tiny_gguf(tmp_path / "small.gguf", seed=5).path
    other = with_other_tokenizer(small, tmp_path / "other.gguf")
    draft = ga.load(with_tokens(other, tmp_path / "more.gguf", NUM_TOKENS + 30), threads=1)
    target = ga.load(padded, threads=1)
    for prompt, guesses in ((PROMPT, True), (f"{PROMPT} <extra 3>", False)):
        plain = target.generate(prompt, **settings())
        found = target.generate(prompt, **settings(drafter="draft-model", draft_model=draft, gamma=6))
        assert found.token_ids == plain.token_ids
        assert (found.stats.num_drafted > 0) is guesses

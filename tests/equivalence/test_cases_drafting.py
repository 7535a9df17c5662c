"""Cases from public bug reports of this field: drafters, sampling, two models, settings."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import fields
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from guessahead.drafters import registry
from guessahead.drafters.base import Drafter, DrafterResources
from guessahead.drafters.model_base import DraftModelOptions
from guessahead.drafters.prompt_lookup import longest_match
from guessahead.engines.replay import Recording
from guessahead.errors import ParameterError, PromptError
from guessahead.model import LanguageModel
from guessahead.runners.solo import SoloRunner
from guessahead.types import Ask, ChoiceContext, SamplingParams
from tests.equivalence import drafter_options
from tests.support.fake_drafters import SlippingDraftModel
from tests.support.fake_text import FakeTokenizer, letters
from tests.support.fakes import ScriptEngine, TinyEngine, decode, plain, request
from tests.support.replaying import FLAT, replay

VOCAB = 24
LETTERS = letters(VOCAB)
PROMPT = [5, 6, 7, 5, 6]


def draft_model(engine: Any, second: Any) -> Drafter:
    return registry.make("draft-model", {}, DrafterResources(engine, second))


@pytest.mark.parametrize("settings", [{}, {"temperature": 1.0}])
@pytest.mark.parametrize("gamma", [1, 2, 4, 7])
def test_case_04_a_model_that_drafts_for_itself_is_always_right(gamma: int, settings: dict[str, Any]) -> None:
    engine, second = TinyEngine(), TinyEngine()
    asked = request(PROMPT, 40, gamma, **settings)
    stats = decode(engine, draft_model(engine, second), LETTERS, asked).stats
    assert stats.alpha == 1.0
    assert max(len(rows.token_ids) for rows in second.calls[1:]) <= 2
    assert second.num_open == 0


def test_case_04_acceptance_is_full_again_after_a_rejection() -> None:
    engine, second = TinyEngine(), TinyEngine()
    drafter = SlippingDraftModel(DraftModelOptions(), DrafterResources(engine, second))
    stats = decode(engine, drafter, LETTERS, request(PROMPT, 60, gamma=4)).stats
    assert stats.num_tested - stats.num_accepted == drafter.num_slips >= 4
    assert max(len(rows.token_ids) for rows in second.calls[1:]) <= 2


def _tiny_model(engine: Any = None, tokenizer: FakeTokenizer = LETTERS) -> LanguageModel:
    return LanguageModel(SoloRunner(engine or TinyEngine(), tokenizer), tokenizer, None, "tiny")  # type: ignore[arg-type]


def test_case_14_seeds() -> None:
    lm = _tiny_model()
    solo = {s: lm.generate(PROMPT, max_tokens=24, temperature=1.0, seed=s).token_ids for s in (1, 2)}
    assert solo[1] != solo[2]
    for _ in range(2):
        assert lm.generate(PROMPT, max_tokens=24, temperature=1.0, seed=1).token_ids == solo[1]
    streams = {s: lm.stream(PROMPT, max_tokens=24, temperature=1.0, seed=s) for s in (1, 2)}
    for _ in itertools.zip_longest(*streams.values()):  # one chunk of each in turn
        pass
    assert {s: stream.result.token_ids for s, stream in streams.items()} == solo
    unseeded = [lm.generate(PROMPT, max_tokens=24, temperature=1.0) for _ in range(4)]
    assert len({g.token_ids for g in unseeded}) > 1
    again = lm.generate(PROMPT, max_tokens=24, temperature=1.0, seed=unseeded[0].seed)
    assert again.token_ids == unseeded[0].token_ids


@pytest.mark.parametrize(("target_vocab", "draft_vocab"), [(24, 30), (30, 24)])
@pytest.mark.parametrize("temperature", [0.0, 1.2])
def test_case_15_padded_vocabularies(target_vocab: int, draft_vocab: int, temperature: float) -> None:
    engine = TinyEngine(target_vocab)
    second = TinyEngine(draft_vocab, seed=1, like=engine)
    tokenizer = letters(30, [23])
    padding = dict.fromkeys(range(24, target_vocab), -50.0)
    asked = request(PROMPT, 30, temperature=temperature, logit_bias=padding, frequency_penalty=0.2)
    generation = decode(engine, draft_model(engine, second), tokenizer, asked)
    assert generation.token_ids == plain(engine, tokenizer, asked).token_ids
    assert generation.stats.num_accepted > 0


def test_case_15_a_draft_of_padding_is_cut_off() -> None:
    engine, second = TinyEngine(24), ScriptEngine([1, 2, 29, 3], 30)
    drafter = draft_model(engine, second)
    choice = ChoiceContext(SamplingParams(seed=0), np.array([1], np.int32), 1)
    drafter.begin(choice)
    assert drafter.propose(Ask(choice, 4)).token_ids.tolist() == [2]


def test_case_15_a_token_unknown_to_the_draft_model_ends_drafting() -> None:
    engine = ScriptEngine([1, 2, 3, 4, 5, 29, 1, 2, 3], 30)
    second = TinyEngine(24)
    generation = decode(engine, draft_model(engine, second), letters(30), request([1], 20))
    assert generation.token_ids == plain(engine, letters(30), request([1], 20)).token_ids
    assert generation.stats.num_drafted > 0
    assert all(29 not in rows.token_ids for rows in second.calls)


def test_case_15_swapped_ids_are_told_apart() -> None:
    """Same size, two ids swapped: never taken for the same token, so such a model drafts as text."""
    pieces = list(LETTERS.pieces)
    pieces[7], pieces[9] = pieces[9], pieces[7]
    script = [7, 3, 9, 9, 7, 5, 4]
    swapped = ScriptEngine([{7: 9, 9: 7}.get(token, token) for token in script], VOCAB)
    other = _tiny_model(swapped, FakeTokenizer(pieces))
    target = _tiny_model(ScriptEngine(script, VOCAB))
    settings: dict[str, Any] = {"max_tokens": 40, "gamma": 3}
    plain = target.generate(PROMPT, drafter="none", **settings)
    assert {7, 9} <= set(plain.token_ids)
    ours = target.generate(PROMPT, drafter="draft-model", draft_model=other, **settings)
    assert ours.token_ids == plain.token_ids
    assert ours.stats.alpha == 1.0, "the same text, whatever the ids"


@pytest.mark.parametrize("draft_context", [8, 22, 25, 27, 64])
@pytest.mark.parametrize("gamma", [0, 1, 4, 8])
def test_case_16_context_ends(gamma: int, draft_context: int) -> None:
    engine = TinyEngine(context_length=30)
    second = TinyEngine(context_length=draft_context, seed=1, like=engine)
    prompt = [i % VOCAB for i in range(20)]
    asked = request(prompt, 100, gamma)
    base = plain(engine, LETTERS, asked)
    assert (len(base.token_ids), base.finish_reason) == (10, "context")
    generation = decode(engine, draft_model(engine, second), LETTERS, asked)
    assert (generation.token_ids, generation.finish_reason) == (base.token_ids, "context")
    assert second.num_open == 0
    if gamma:
        assert (generation.stats.num_drafted > 0) == (draft_context > 20)


def test_case_16_a_prompt_that_fills_the_context_is_refused() -> None:
    lm = _tiny_model(TinyEngine(context_length=8))
    with pytest.raises(PromptError, match="leaves no room"):
        lm.stream([1] * 8)
    with pytest.raises(PromptError, match="empty"):
        lm.stream([])
    assert lm.generate([1] * 7, max_tokens=1).finish_reason == "length"


def _lookup(history: list[int], budget: int = 4, **options: int) -> list[int]:
    drafter = registry.make("prompt-lookup", options, DrafterResources(TinyEngine()))  # type: ignore[arg-type]
    choice = ChoiceContext(SamplingParams(), np.array(history, np.int32), 1)
    drafter.begin(choice)
    return drafter.propose(Ask(choice, budget)).token_ids.tolist()


def test_case_17_lookup_without_a_match() -> None:
    assert _lookup([1, 2, 3, 4, 5]) == []
    assert _lookup([1]) == []
    assert _lookup([1], min_ngram=1) == []
    assert _lookup([1, 2], min_ngram=2) == []
    assert _lookup([3, 1, 2], min_ngram=3, max_ngram=3) == []


def test_case_17_longest_then_most_recent() -> None:
    assert _lookup([1, 2, 3, 9, 2, 3, 8, 1, 2, 3], budget=2) == [9, 2], "three tokens beat two"
    assert _lookup([2, 3, 9, 2, 3, 8, 2, 3], budget=1) == [8], "the later of two equally long ones"


def test_case_17_the_suffix_never_matches_itself_and_copies_overlap() -> None:
    assert _lookup([7, 7], min_ngram=1) == [7, 7, 7, 7]
    assert _lookup([5, 1, 2, 1, 2, 1, 2], budget=5) == [1, 2, 1, 2, 1]


def _naive_match(history: list[int], max_ngram: int) -> tuple[int, int]:
    for length in range(min(max_ngram, len(history)), 0, -1):
        for end in range(len(history) - 2, length - 2, -1):
            if history[end - length + 1 : end + 1] == history[len(history) - length :]:
                return end, length
    return -1, 0


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.integers(1, 9))
def test_case_17_the_match_is_what_a_full_search_finds(history: list[int], max_ngram: int) -> None:
    for length in range(1, len(history) + 1):
        end, matched = longest_match(np.array(history[:length], np.int32), max_ngram)
        assert (end - 1, matched) == _naive_match(history[:length], max_ngram)


def test_case_17_long_histories_take_under_a_millisecond_a_step() -> None:
    generator = np.random.default_rng(0)
    for high in (2, 50, 40_000):
        history = generator.integers(0, high, 20_300).astype(np.int32)
        drafter = registry.make("prompt-lookup", {}, DrafterResources(TinyEngine()))  # type: ignore[arg-type]
        choices = [ChoiceContext(SamplingParams(), history[:n], 20_000) for n in range(20_000, 20_300)]
        drafter.begin(choices[0])
        drafter.propose(Ask(choices[0], 8))
        seconds = []
        for choice in choices[1:]:
            started = perf_counter()
            drafter.propose(Ask(choice, 8))
            seconds.append(perf_counter() - started)
        assert median(seconds) < 1e-3


def _max_drafted(**options: Any) -> int:
    lm = _tiny_model(ScriptEngine([1, 2, 3], VOCAB))
    options = {"drafter": "prompt-lookup"} | options
    trace = lm.generate([1, 2, 3, 1, 2, 3], max_tokens=30, trace=True, **options).trace
    assert trace is not None
    return max(len(step["draft"]["token_ids"]) for step in trace["steps"])


def test_case_22_gamma_is_the_most_tokens_drafted() -> None:
    assert [_max_drafted(gamma=gamma) for gamma in (0, 1, 3, 9)] == [0, 1, 3, 9]


def _max_ngram_matters() -> None:
    """The longest match ends with 9; with two tokens, the later one counts."""
    history = [1, 2, 3, 9, 7, 2, 3, 8, 1, 2, 3]
    assert _lookup(history, budget=1, max_ngram=3) == [9]
    assert _lookup(history, budget=1, max_ngram=2) == [8]


def _min_ngram_matters() -> None:
    history = [4, 2, 3, 9, 2, 3]
    assert _lookup(history, budget=1, min_ngram=2) == [9]
    assert _lookup(history, budget=1, min_ngram=3) == []


OPTION_CHECKS: dict[tuple[str, str], Callable[[], None]] = {
    ("prompt-lookup", "max_ngram"): _max_ngram_matters,
    ("prompt-lookup", "min_ngram"): _min_ngram_matters,
} | drafter_options.CHECKS


@pytest.mark.parametrize("most", [1, 5, 24, None])
def test_case_22_max_draft_is_the_most_tokens_that_auto_drafts(most: int | None) -> None:
    line = np.random.default_rng(0).permutation(40_000)[:30].astype(np.int32)
    text = np.tile(line, 12)
    made = replay(
        Recording("made", "made", text[:8], text[8:]), "suffix", "auto", v=FLAT, max_draft=most, trace=True
    )
    assert max(len(step["draft"]["token_ids"]) for step in made.trace["steps"]) == (most or 24)


def test_case_22_every_drafter_option_does_what_it_says() -> None:
    existing = {
        (name, each.name) for name in registry.names() for each in fields(registry.find(name).Options)
    }
    assert existing == set(OPTION_CHECKS), "an option without a check that it has an effect"
    for check in OPTION_CHECKS.values():
        check()


def test_case_22_unknown_settings_are_refused() -> None:
    lm = _tiny_model()
    with pytest.raises(ParameterError, match="known: max_ngram, min_ngram"):
        lm.generate(PROMPT, drafter="prompt-lookup", drafter_options={"ngram": 3})
    with pytest.raises(ParameterError, match="unknown option 'num_draft'"):
        lm.generate(PROMPT, num_draft=3)  # type: ignore[call-arg]

"""The classic rule's parts: its random numbers, what it refuses, and where it changes nothing.

That the distribution is right is in tests/distribution/test_rejection.py.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from guessahead.core.rejection import HashDraws, RejectionJudge, Use
from guessahead.drafters import registry
from guessahead.drafters.base import Drafter, DrafterResources
from guessahead.drafters.draft_model import DraftModel
from guessahead.drafters.model_base import DraftModelOptions
from guessahead.errors import ParameterError, StateError
from guessahead.protocols import PassOutput
from guessahead.runners.solo import SpeculativeDecoder
from guessahead.types import Ask, ChoiceContext, Draft, Float64, Generation, SamplingParams
from tests.support.fake_text import letters
from tests.support.fakes import TinyEngine, decode, plain, request

VOCAB = 24
# Chi-square of 3 degrees of freedom exceeds this once in 10,000.
CHI_SQUARE_BOUND = 21.1


def choice_of(seed: int = 1, stream: int = 0) -> ChoiceContext:
    params = SamplingParams(temperature=1.0, seed=seed)
    return ChoiceContext(params, np.array([0], np.int32), 1, stream=stream)


def test_a_number_is_a_function_of_seed_stream_use_start_and_depth() -> None:
    weights = np.ones(1 << 20)
    names = [
        (seed, stream, use, start, depth)
        for seed in (1, 2)
        for stream in (0, 1)
        for use in Use
        for start in (5, 6)
        for depth in (0, 1)
    ]

    def number(seed: int, stream: int, use: Use, start: int, depth: int) -> int:
        return HashDraws(choice_of(seed, stream)).pick(use, weights, start, depth)

    numbers = [number(*name) for name in names]
    assert len(set(numbers)) == len(names)
    assert numbers == [number(*name) for name in names]


def test_picks_and_tests_happen_as_often_as_they_should() -> None:
    draws, num = HashDraws(choice_of()), 20_000
    weights = np.array([0.0, 3.0, 0.0, 1.0, 2.0, 4.0, 0.0])
    counts = Counter(draws.pick(Use.GUESS, weights, start, 0) for start in range(num))
    expected = {index: num * weight / 10 for index, weight in enumerate(weights) if weight}
    assert set(counts) == set(expected)
    chi_square = sum((counts[index] - mean) ** 2 / mean for index, mean in expected.items())
    assert chi_square < CHI_SQUARE_BOUND
    passed = sum(draws.passes(Use.TEST, 0.3, start, 2) for start in range(num))
    assert passed == pytest.approx(0.3 * num, abs=4 * np.sqrt(0.21 * num))
    assert all(draws.passes(Use.TEST, 1.0, start, 0) for start in range(100))
    assert not any(draws.passes(Use.TEST, 0.0, start, 0) for start in range(100))


@pytest.mark.parametrize("number", [2.0**-53, 1.0 - 2.0**-53])
def test_the_ends_of_the_interval_never_pick_what_has_no_weight(
    number: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HashDraws, "_uniform", lambda *name: number)
    draws = HashDraws(choice_of())
    for weights in ([0.0, 0.1, 0.2, 0.0], [0.0, 1e-300, 0.0], [0.0, 0.7, 1e-20, 0.0]):
        array: Float64 = np.array(weights)
        assert array[draws.pick(Use.REPLACEMENT, array, 0, 0)] > 0.0


def models(seed: int = 3) -> DrafterResources:
    target = TinyEngine(VOCAB, seed=seed)
    return DrafterResources(target, TinyEngine(VOCAB, seed=seed + 1, like=target))


def generate(drafter: str, setup: DrafterResources, **settings: Any) -> Generation:
    options = {"min_ngram": 1} if drafter == "prompt-lookup" else {}
    chosen = setup if registry.find(drafter).takes_draft_engine else replace(setup, draft_engine=None)
    asked = request([1, 2, 3, 1, 2], 40, acceptance="rejection", **settings)
    return decode(setup.engine, registry.make(drafter, options, chosen), letters(VOCAB), asked)


@pytest.mark.parametrize("drafter", ["draft-model", "portfolio", "suffix", "prompt-lookup"])
def test_greedy_text_is_identical(drafter: str) -> None:
    setup = models()
    expected = plain(setup.engine, letters(VOCAB), request([1, 2, 3, 1, 2], 40)).token_ids
    assert generate(drafter, setup).token_ids == expected
    assert generate(drafter, setup, temperature=1.0, top_k=1).token_ids == expected


@pytest.mark.parametrize("drafter", ["none", "suffix", "prompt-lookup"])
def test_drafters_that_sample_nothing_leave_the_text_identical(drafter: str) -> None:
    setup = models()
    asked = request([1, 2, 3, 1, 2], 40, temperature=1.0)
    assert generate(drafter, setup, temperature=1.0).token_ids == plain(
        setup.engine, letters(VOCAB), asked
    ).token_ids  # fmt: skip


def test_a_seed_and_a_gamma_make_a_text_and_it_is_not_the_plain_one() -> None:
    setup = models()
    texts = {generate("draft-model", setup, temperature=1.0, seed=seed).token_ids for seed in (0, 0, 1, 2)}
    assert len(texts) == 3
    asked = request([1, 2, 3, 1, 2], 40, temperature=1.0, seed=0)
    assert plain(setup.engine, letters(VOCAB), asked).token_ids not in texts


def test_a_draft_model_that_is_the_target_is_always_right() -> None:
    target = TinyEngine(VOCAB, seed=5)
    stats = generate(
        "draft-model", DrafterResources(target, TinyEngine(VOCAB, seed=5)), temperature=1.3
    ).stats
    assert stats.alpha == 1.0
    assert stats.num_drafted > 20


def test_the_trace_shows_the_choices_that_were_made() -> None:
    generation = generate("draft-model", models(), temperature=2.0, trace=True)
    assert generation.trace is not None
    assert generation.trace["acceptance"] == "rejection"
    steps = generation.trace["steps"]
    corrections = [step for step in steps if step["kind"] == "correction"]
    assert corrections
    for step in steps:
        chosen = [token for token in step["chosen"] if token >= 0]
        assert chosen[: len(step["token_ids"])] == step["token_ids"]
    for step in corrections:
        assert step["token_ids"][-1] != step["draft"]["token_ids"][len(step["path"])]


@pytest.mark.parametrize("num_logprobs", [0, 3])
def test_log_probabilities_are_those_of_the_rows(num_logprobs: int) -> None:
    setup = models()
    generation = generate("draft-model", setup, temperature=1.0, logprobs=num_logprobs)
    assert generation.logprobs is not None
    text = [1, 2, 3, 1, 2]
    for entry, token in zip(generation.logprobs, generation.token_ids, strict=True):
        assert isinstance(setup.engine, TinyEngine)
        logits = setup.engine.logits_after(tuple(text)).astype(np.float64)
        expected = logits[token] - np.log(np.exp(logits).sum())
        assert entry.token_id == token
        assert entry.logprob == pytest.approx(expected, abs=1e-6)
        text.append(token)


class Unsampled(Drafter):
    """A model that guesses and states no distribution."""

    name = "unsampled"
    pays_per_guess = True

    def propose(self, ask: Ask) -> Draft:
        return Draft()


def test_a_model_without_distributions_is_refused_before_anything_is_generated() -> None:
    setup = models()
    decoder = SpeculativeDecoder(setup.engine, Unsampled(None, setup), letters(VOCAB))  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match=r"'unsampled'.*'rejection'.*'identical'"):
        decoder.stream(request([1], temperature=1.0, acceptance="rejection"))
    assert decoder.generate(request([1], acceptance="rejection")).token_ids  # greedy: nothing is sampled
    assert decoder.generate(request([1], temperature=1.0)).token_ids


def test_members_get_the_draws_with_every_ask() -> None:
    draws = HashDraws(choice_of())
    seen: list[Ask] = []

    class Watched(DraftModel):
        def propose(self, ask: Ask) -> Draft:
            seen.append(ask)
            return super().propose(ask)

    setup = models()
    decoder = SpeculativeDecoder(
        setup.engine,
        Watched(DraftModelOptions(), setup),
        letters(VOCAB),
        draws=lambda context: draws,  # type: ignore[arg-type]
    )
    decoder.generate(request([1, 2], 20, 3, temperature=1.0, acceptance="rejection"))
    assert seen
    assert all(ask.draws is draws for ask in seen)
    seen.clear()
    decoder.generate(request([1, 2], 20, 3, temperature=1.0))
    assert seen
    assert all(ask.draws is None for ask in seen)


def test_a_sampled_draft_that_is_no_chain_or_lacks_its_logits_is_a_fault() -> None:
    q = np.array([0.5, 0.5])
    draft = Draft(np.array([0], np.int32), distributions=(q,))
    logits = {0: np.zeros(2, np.float32), 1: np.zeros(2, np.float32)}
    output = PassOutput(np.array([-1, -1], np.int32), logits)
    judge = RejectionJudge(HashDraws(choice_of()))
    assert len(judge.chosen(draft, choice_of(), output, 0)) == 2
    for wrong in (
        (replace(draft, distributions=()), output),
        (replace(draft, parents=np.array([-1], np.int32)), output),
        (draft, replace(output, logits=None)),
    ):
        with pytest.raises(StateError, match="sampled draft"):
            judge.chosen(wrong[0], choice_of(), wrong[1], 0)


def test_drafts_that_were_not_sampled_are_left_to_choose() -> None:
    draft = Draft(np.array([0], np.int32))
    output = PassOutput(np.array([9, 1, 0], np.int32))
    judge = RejectionJudge(HashDraws(choice_of()))
    assert judge.chosen(draft, choice_of(), output, 1).tolist() == [1, 0]

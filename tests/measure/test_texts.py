"""Acceptance on a text and costs of passes, where both are known beforehand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import pytest

from guessahead.core.sampling import probabilities
from guessahead.drafters import registry
from guessahead.drafters.base import Drafter, DrafterResources
from guessahead.errors import PromptError
from guessahead.measure.formulas import Costs, VerifyCurve, predict_speedup, predict_tau
from guessahead.measure.text_result import TextAcceptance, expect, pooled
from guessahead.measure.texts import measure_text
from guessahead.types import Ask, ChoiceContext, Draft, Float32, HiddenStates, Int32, SamplingParams, Verdict
from tests.support.fakes import FakeEngine, ScriptEngine, TinyEngine

TEXT = np.array([(7 * i) % 50 for i in range(40)], np.int32)
START = 10  # a quarter of it


class Copyist(Drafter):
    """Guesses what stands in the text, except where told otherwise. Every question takes one second."""

    name: ClassVar[str] = "copyist"

    def __init__(self, text: Int32, wrong: Mapping[int, int] | None = None) -> None:
        self._text, self._wrong = text, wrong or {}
        self.now = 0.0
        self.seen: list[int] = []
        self.num_ended = 0

    def begin(self, context: ChoiceContext) -> None:
        self.seen = context.history.tolist()

    def propose(self, ask: Ask) -> Draft:
        assert ask.context.history.tolist() == self.seen
        self.now += 1.0
        place = len(ask.context.history)
        guesses = [self._wrong.get(i, int(self._text[i])) for i in range(place, place + ask.budget)]
        return Draft(np.array(guesses, np.int32))

    def observe(self, verdict: Verdict, hidden: HiddenStates | None) -> None:
        self.seen += verdict.token_ids.tolist()

    def end(self) -> None:
        self.num_ended += 1


def measure(engine: FakeEngine, drafter: Drafter, **more: object) -> TextAcceptance:
    found = measure_text("text", TEXT, engine=engine, drafter=drafter, **more)  # type: ignore[arg-type]
    assert engine.num_open == 0
    return found


def test_a_drafter_and_a_target_that_know_the_text() -> None:
    engine, drafter = ScriptEngine(TEXT.tolist()), Copyist(TEXT)
    found = measure(engine, drafter, clock=lambda: drafter.now)
    assert found.alpha == 1.0
    assert found.num_tokens == found.num_guessed == 30
    assert found.tested_at == (30, 29, 28, 27)
    assert found.guess_seconds == pytest.approx(30 / sum(found.tested_at))
    assert drafter.seen == TEXT.tolist()
    assert drafter.num_ended == 1
    # Many choices per pass, and every row of the text once.
    assert len(engine.calls) == 1 + 4  # the given part, then the rest
    assert sum(len(call.token_ids) for call in engine.calls) == len(TEXT) - 1


def test_where_the_target_would_write_something_else() -> None:
    script = TEXT.tolist()
    script[15] = script[20] = 63
    found = measure(ScriptEngine(script), Copyist(TEXT))
    assert found.tested_at == (30, 29, 28, 27)
    # Guess i of a draft stands i places on; each of the two places is missed once at every depth.
    assert found.accepted_at == (28, 27, 26, 25)


def test_guesses_behind_one_that_is_not_in_the_text_are_not_tested() -> None:
    found = measure(ScriptEngine(TEXT.tolist()), Copyist(TEXT, {30: 60}))
    assert found.tested_at == (30, 28, 26, 24)
    assert found.accepted_at == (29, 27, 25, 23)
    assert found.along[:12] == (1.0,) * 12
    assert min(value for value in found.along if value is not None) < 1.0


class Forked(Copyist):
    """The right guess beside a wrong one, then nothing."""

    def propose(self, ask: Ask) -> Draft:
        right = int(self._text[len(ask.context.history)])
        return Draft(np.array([61, right], np.int32), np.array([-1, -1], np.int32))


def test_one_right_sibling_is_enough() -> None:
    found = measure(ScriptEngine(TEXT.tolist()), Forked(TEXT))
    assert (found.tested_at[0], found.accepted_at[0]) == (30, 30)
    assert found.tested_at[1:] == (0, 0, 0)


class Silent(Copyist):
    def propose(self, ask: Ask) -> Draft:
        return Draft()


def test_a_drafter_without_a_guess() -> None:
    found = measure(ScriptEngine(TEXT.tolist()), Silent(TEXT))
    assert (found.alpha, found.share, found.guess_seconds) == (None, 0.0, 0.0)
    assert set(found.along) == {None}


def _softmax(logits: Float32, temperature: float) -> np.ndarray:
    scaled = np.exp((logits.astype(np.float64) - logits.max()) / temperature)
    return scaled / scaled.sum()


def test_sampled_a_guess_is_worth_its_probability() -> None:
    engine = TinyEngine(64, seed=1)
    found = measure(engine, Copyist(TEXT), params=SamplingParams(temperature=0.7, seed=3), gamma=1)
    expected = [
        _softmax(engine.logits_after(tuple(TEXT[:place].tolist())), 0.7)[TEXT[place]]
        for place in range(START, len(TEXT))
    ]
    assert found.accepted_at[0] == pytest.approx(sum(expected))


def test_two_models_sampled_overlap() -> None:
    engine, other = TinyEngine(64, seed=1), TinyEngine(64, seed=2)
    drafter = registry.make("draft-model", {}, DrafterResources(engine, other))
    params = SamplingParams(temperature=1.3, seed=3)
    found = measure(engine, drafter, draft_engine=other, params=params)
    expected = []
    for place in range(START, len(TEXT)):
        p, q = (_softmax(e.logits_after(tuple(TEXT[:place].tolist())), 1.3) for e in (engine, other))
        expected.append(np.minimum(p, q).sum())
    assert found.alpha == pytest.approx(np.mean(expected))
    assert 0 < np.mean(expected) < 1


def test_what_is_given_is_not_guessed() -> None:
    found = measure(ScriptEngine(TEXT.tolist()), Copyist(TEXT), num_given=35)
    assert found.num_tokens == 5
    with pytest.raises(PromptError, match="40 are given"):
        measure(ScriptEngine(TEXT.tolist()), Copyist(TEXT), num_given=40)


def test_texts_pooled() -> None:
    one = TextAcceptance("one", 10, 5, (5, 4), (4.0, 3.0), (), 0.1)
    other = TextAcceptance("other", 20, 1, (1, 0), (0.0, 0.0), (), 0.4)
    both = pooled("both", [one, other])
    assert (both.num_tokens, both.num_guessed) == (30, 6)
    assert (both.tested_at, both.accepted_at) == ((6, 4), (4.0, 3.0))
    assert both.guess_seconds == pytest.approx((9 * 0.1 + 1 * 0.4) / 10)
    assert pooled("none", [TextAcceptance("x", 1, 0, (0,), (0.0,), (), 0.0)]).guess_seconds == 0.0


def test_progress_ends_complete() -> None:
    told: list[tuple[int, int]] = []
    measure(ScriptEngine(TEXT.tolist()), Copyist(TEXT), progress=lambda *both: told.append(both))
    assert told == [(done, 30) for done in range(1, 31)]


def test_texts_that_do_not_fit() -> None:
    for text, limit in ((TEXT[:5], 100), (TEXT, 20)):
        engine = ScriptEngine(TEXT.tolist(), context_length=limit)
        with pytest.raises(PromptError, match="letter has"):
            measure_text("letter", text, engine=engine, drafter=Copyist(TEXT))


def _acceptance(alpha: float, share: float) -> TextAcceptance:
    return TextAcceptance("text", 100, round(100 * share), (100,), (100 * alpha,), (), 0.0)


def test_the_expectation_is_the_formula() -> None:
    costs = Costs(0.05, VerifyCurve({2: 1.1, 9: 2.0}))
    full = expect(_acceptance(0.7, 1.0), costs, 8)
    assert full.speedup == pytest.approx(
        max(predict_speedup(0.7, gamma, 0.05, costs.v(gamma + 1)) for gamma in range(9))
    )
    half = expect(_acceptance(0.7, 0.5), costs, 8)
    assert half.gamma == full.gamma
    assert half.tau == pytest.approx(0.5 * predict_tau(0.7, full.gamma) + 0.5)
    assert 1.0 < half.speedup < full.speedup
    hopeless = expect(_acceptance(0.05, 1.0), costs, 8)
    assert (hopeless.gamma, hopeless.speedup) == (0, 1.0)


def test_probabilities_are_those_of_the_choice() -> None:
    logits = np.array([2.0, 1.0, 0.0, -1.0], np.float32)
    history = np.array([0], np.int32)

    def law(**settings: float) -> list[float]:
        params = SamplingParams(**settings)  # type: ignore[arg-type]
        return probabilities(logits, ChoiceContext(params, history, 1)).round(6).tolist()

    assert law() == [1, 0, 0, 0]
    weights = np.exp([2.0, 1.0, 0.0, -1.0])
    assert law(temperature=1.0) == pytest.approx(list(weights / weights.sum()), abs=1e-6)
    assert law(temperature=1.0, top_k=2) == pytest.approx([0.731059, 0.268941, 0, 0], abs=1e-6)
    assert law(temperature=1.0, min_p=0.2) == pytest.approx([0.731059, 0.268941, 0, 0], abs=1e-6)

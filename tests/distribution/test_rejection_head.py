"""acceptance="rejection" with a draft head: the law of the text is plain decoding's, by enumeration.

On fakes under all settings and under the controller, and with a head of real matrices on the native engine.
Twins of the head that break the rule which makes the law hold must be found out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import guessahead as ga
from guessahead.controller.members import Member
from guessahead.core import sampling
from guessahead.drafters.base import Drafter, DrafterResources
from guessahead.drafters.head import Head, HeadOptions
from guessahead.drafters.portfolio import Portfolio, PortfolioOptions
from guessahead.engines.native import NativeEngine
from guessahead.engines.native.head import NativeHead
from guessahead.protocols import PassOutput, Rows
from guessahead.runners.solo import SpeculativeDecoder
from guessahead.types import Ask, ChoiceContext, Draft, Float32, Gamma, Int32
from tests.support.enumeration import ChanceEngine, Law, Outcomes, distance, enumerated, plain_law
from tests.support.fake_head import FakeHead, FakeHeadSequence
from tests.support.fakes import request
from tests.support.sampling_world import DIFFERENT, SAME, SETTINGS, VOCAB, Picky, SharedNoise, World
from tests.support.tiny import tiny_gguf
from tests.support.tiny_head import tiny_head

pytestmark = pytest.mark.slow

PROMPT = (40, 50, 60, 40, 50)


class TimedHead(FakeHead):
    """Guesses what the second model would choose, in as much virtual time as that takes for a pass."""

    def __init__(self, setup: DrafterResources, draft_ids: tuple[int, ...]) -> None:
        target, second = setup.engine, setup.draft_engine
        assert isinstance(target, ChanceEngine)
        assert isinstance(second, ChanceEngine)
        super().__init__(target, second)
        self.draft_ids = np.array(draft_ids, np.int32)
        self._clock, self._seconds = target.clock, second.seconds
        self.bytes_per_pass = second.info.bytes_per_pass

    def read(
        self, sequence: FakeHeadSequence, next_ids: Int32, fused: Float32
    ) -> tuple[Float32, Float32, Float32]:
        self._clock.advance(self._seconds)
        return super().read(sequence, next_ids, fused)

    def grow(
        self, sequence: FakeHeadSequence, tokens: Int32, states: Float32, parents: Int32
    ) -> tuple[Float32, dict[int, Float32]]:
        self._clock.advance(self._seconds)
        return super().grow(sequence, tokens, states, parents)


def with_head(setup: DrafterResources, draft_ids: tuple[int, ...]) -> DrafterResources:
    made = TimedHead(setup, draft_ids)
    return replace(setup, head=lambda path: made)  # type: ignore[arg-type, return-value]


def of_kind(
    kind: type[Head] = Head, draft_ids: tuple[int, ...] = tuple(range(VOCAB)), **options: int
) -> Callable[[DrafterResources], Drafter]:
    return lambda setup: kind(HeadOptions(**options), with_head(setup, draft_ids))


head = of_kind()
partial_head = of_kind(draft_ids=(0, 2))


def portfolio(setup: DrafterResources) -> Drafter:
    """With the head in the place of the second model."""
    return Portfolio(PortfolioOptions(), replace(with_head(setup, tuple(range(VOCAB))), draft_engine=None))


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("drafter", [head, partial_head], ids=["all", "partial"])
def test_a_fixed_gamma_keeps_the_law(drafter: Any, settings: str) -> None:
    world = World(drafter, settings, gamma=2, max_tokens=4)
    assert distance(*world.laws()) < SAME
    assert world.lengths[2] > 0


@pytest.mark.parametrize(
    ("drafter", "gamma"), [(head, 1), (head, 3), (of_kind(branches=3, width=2), 3), (portfolio, 3)]
)
def test_other_draft_lengths_options_and_a_portfolio_keep_the_law(drafter: Any, gamma: int) -> None:
    world = World(drafter, "top-p", gamma, max_tokens=4)
    assert distance(*world.laws()) < SAME
    assert world.lengths[min(gamma, 2)] > 0


def test_a_head_of_which_every_token_is_forbidden_keeps_the_law(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = {"temperature": 1.0, "logit_bias": {0: float("-inf"), 2: float("-inf")}}
    monkeypatch.setitem(SETTINGS, "forbidden", nothing)
    world = World(partial_head, "forbidden", gamma=2, max_tokens=4)
    assert distance(*world.laws()) < SAME


@pytest.mark.parametrize(
    ("drafter", "settings", "c"),
    [
        (head, "top-k", 0.3),
        (head, "all", 0.25),
        (head, "eos", 0.3),
        (partial_head, "top-p", 0.3),
        (portfolio, "all", 0.3),
        (portfolio, "temperature", 0.35),
    ],
)
def test_the_controller_keeps_the_law(
    drafter: Any, settings: str, c: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Member, "trusted", lambda _, limit: limit)  # long drafts at once
    monkeypatch.setattr(Head, "prior", None)  # what is decided here must not hang on what was tuned
    monkeypatch.setattr(Head, "mean_prior", Drafter.mean_prior)
    max_tokens = 4 if settings == "temperature" else 5
    world = World(drafter, settings, "auto", max_tokens, c)
    assert distance(*world.laws()) < SAME
    assert world.num_short > 0, "the controller decided nothing"
    assert max(world.lengths) > 1
    assert drafter is not portfolio or world.guessed_by == {"suffix", "head"}


@pytest.mark.parametrize("drafter", [head, portfolio])
def test_the_controller_that_knows_heads_keeps_the_law(drafter: Any) -> None:
    for c in (0.05, 0.2):
        world = World(drafter, "all", "auto", 5, c)
        assert distance(*world.laws()) < SAME
        assert "head" in world.guessed_by or c > 0.05


# --- twins ---


class PickyHead(Picky, Head):
    pass


class OtherTemperature(Head):
    """States its distribution at temperature 1, and draws at the temperature that was asked for."""

    def propose(self, ask: Ask) -> Draft:
        draft = super().propose(ask)
        assert draft.distributions is not None
        raised = [q**ask.context.params.temperature for q in draft.distributions]
        return replace(draft, distributions=tuple(q / q.sum() for q in raised))


@pytest.mark.parametrize("gamma", [2, "auto"])
@pytest.mark.parametrize("twin", [PickyHead, OtherTemperature])
def test_twins_that_state_or_keep_the_wrong_thing_fail(twin: type[Head], gamma: Gamma) -> None:
    world = World(of_kind(twin), "top-p", gamma, max_tokens=4)
    ours, plain = world.laws()
    assert sum(ours.values()) == pytest.approx(1.0, abs=SAME)
    assert distance(ours, plain) > DIFFERENT


def test_a_twin_that_shares_noise_between_guess_and_test_fails() -> None:
    world = World(head, "top-k", gamma=2, max_tokens=4)
    world.outcomes = SharedNoise()
    ours, plain = world.laws()
    assert sum(ours.values()) == pytest.approx(1.0, abs=SAME)
    assert distance(ours, plain) > DIFFERENT


# --- on the native engine ---


class ChanceNative:
    """A native engine whose sampled choices are outcomes. It takes one chain at a time, sampled or empty."""

    def __init__(self, engine: NativeEngine, outcomes: Outcomes) -> None:
        self.info = engine.info
        self.new_sequence = engine.new_sequence
        self._engine, self._outcomes = engine, outcomes
        self._known: dict[tuple[int, ...], Float32] = {}

    def forward(self, requests: list[Rows]) -> list[PassOutput]:
        [rows] = requests
        context, last = rows.context, len(rows.token_ids) - 1
        assert context is not None
        if rows.want_logits == "all":  # a sampled draft: the judge chooses
            return self._engine.forward([rows])
        assert rows.choose_from == last
        [output] = self._engine.forward([replace(rows, want_logits="path")])
        assert output.logits is not None
        probabilities = sampling.probabilities(output.logits[last], context)
        chosen = output.chosen.copy()
        chosen[last] = self._outcomes.where(("choose", len(context.history)), probabilities)
        return [replace(output, chosen=chosen)]

    def logits_after(self, text: tuple[int, ...]) -> Float32:
        """From an empty cache, in one pass."""
        if text not in self._known:
            sequence, token_ids = self._engine.new_sequence(), np.array(text, np.int32)
            choice = ChoiceContext(ga.SamplingParams(), token_ids, len(text))
            [output] = self._engine.forward([Rows(sequence, token_ids, context=choice, want_logits="path")])
            sequence.close()
            assert output.logits is not None
            self._known[text] = output.logits[len(text) - 1]
        return self._known[text]


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> ga.LanguageModel:
    path = tmp_path_factory.mktemp("rejection") / "target.gguf"
    return ga.load(tiny_gguf(path, "qwen2", format="Q4_1", seed=5).path, threads=1)


def native_laws(lm: ga.LanguageModel, kind: type[Head]) -> tuple[Law, Law, int, int]:
    """What comes out, what must; guesses that were kept, and that were not."""
    engine, outcomes = lm.runner.engine, Outcomes()
    assert isinstance(engine, NativeEngine)
    made = NativeHead(tiny_head(engine), engine.head_host)
    # Three tokens that the head may guess, so far above all others that nothing else is left.
    tokens = made.draft_ids[[20, 50, 80]].tolist()
    asked = request(
        PROMPT,
        4,
        2,
        acceptance="rejection",
        temperature=3.0,
        top_k=3,
        logit_bias=dict.fromkeys(tokens, 100.0),
    )
    chance, counts = ChanceNative(engine, outcomes), [0, 0]

    def generate() -> tuple[int, ...]:
        drafter = kind(HeadOptions(), DrafterResources(engine, head=lambda path: made))
        decoder = SpeculativeDecoder(chance, drafter, lm.tokenizer, draws=lambda choice: outcomes)
        generation = decoder.generate(asked)
        counts[0] += generation.stats.num_accepted
        counts[1] += generation.stats.num_tested - generation.stats.num_accepted
        return generation.token_ids

    ours = enumerated(outcomes, generate)
    return ours, plain_law(chance, PROMPT, asked.params, 4), *counts


def test_a_head_of_matrices_keeps_the_law_on_the_native_engine(native: ga.LanguageModel) -> None:
    ours, plain, num_kept, num_replaced = native_laws(native, Head)
    assert len(plain) == 3**4
    assert distance(ours, plain) < SAME
    assert num_kept > 100
    assert num_replaced > 100


def test_on_the_native_engine_the_twin_fails_too(native: ga.LanguageModel) -> None:
    ours, plain, *_ = native_laws(native, PickyHead)
    assert distance(ours, plain) > DIFFERENT

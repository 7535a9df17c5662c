"""Cases from public bug reports of this field: sampling settings, seen the same by drafter and verifier."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any, ClassVar

import numpy as np
import pytest

import guessahead.core.step
from guessahead.core.verify import accept
from guessahead.drafters import registry
from guessahead.drafters.base import Drafter, DrafterResources
from guessahead.types import Ask, Draft, Int32, SamplingParams, Verdict
from tests.support.fake_text import letters
from tests.support.fakes import TinyEngine, decode, plain, request

VOCAB = 24
LETTERS = letters(VOCAB)
PROMPT = [5, 6, 7, 5, 6]


def draft_model(engine: Any, second: Any) -> Drafter:
    return registry.make("draft-model", {}, DrafterResources(engine, second))


def _chi_square(counts: Counter[Any], law: dict[Any, float], total: int) -> float:
    """(statistic - its mean) / its standard deviation; cells expected fewer than 5 times are one cell.

    Infinite if something happened that cannot happen.
    """
    if any(law[key] == 0.0 for key in counts):
        return float("inf")
    cells = [(counts[key], p * total) for key, p in law.items() if p * total >= 5]
    rest = (total - sum(c for c, _ in cells), total - sum(e for _, e in cells))
    cells += [rest] if rest[1] > 1 else []
    statistic = sum((count - expected) ** 2 / expected for count, expected in cells)
    freedom = len(cells) - 1
    return float((statistic - freedom) / np.sqrt(2 * freedom))


def _law(engine: TinyEngine, params: SamplingParams, length: int) -> dict[tuple[int, ...], float]:
    """The probability of every output, from softmax, top-k and temperature written out."""
    law = {}
    for output in itertools.product(range(engine.info.vocab_size), repeat=length):
        probability = 1.0
        for i, token in enumerate(output):
            logits = engine.logits_after((*PROMPT_4, *output[:i])).astype(float) / params.temperature
            kept = np.argsort(-logits, kind="stable")[: params.top_k]
            weights = np.zeros(len(logits))
            weights[kept] = np.exp(logits[kept] - logits.max())
            probability *= weights[token] / weights.sum()
        law[output] = float(probability)
    return law


PROMPT_4 = [0, 1, 2]


class ColdDrafter(Drafter):
    """Guesses greedily, whatever the temperature."""

    name: ClassVar[str] = "cold"

    def __init__(self, engine: TinyEngine) -> None:
        self._engine = engine

    def propose(self, ask: Ask) -> Draft:
        guesses: list[int] = []
        for _ in range(ask.budget):
            guesses.append(int(self._engine.logits_after((*ask.context.history.tolist(), *guesses)).argmax()))
        return Draft(np.array(guesses, np.int32))


def _unchecked(draft: Draft, chosen: Int32) -> Verdict:
    trusting = chosen.copy()
    trusting[0] = draft.token_ids[0] if len(draft) else chosen[0]
    if len(draft) and trusting[1] < 0:
        trusting[1] = chosen[0]
    return accept(draft, trusting)


@pytest.mark.parametrize("broken", [False, True])
def test_case_09_the_law_of_the_output_is_the_targets(broken: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = TinyEngine(vocab_size=4)
    params = SamplingParams(temperature=2.5, top_k=3)
    law = _law(engine, params, 3)
    assert sum(law.values()) == pytest.approx(1.0)
    if broken:
        monkeypatch.setattr(guessahead.core.step, "accept", _unchecked)
    total = 2500
    outputs: Counter[Any] = Counter()
    for seed in range(total):
        asked = request(PROMPT_4, 3, gamma=2, seed=seed, temperature=2.5, top_k=3)
        outputs[decode(engine, ColdDrafter(engine), LETTERS, asked).token_ids] += 1
    deviation = _chi_square(outputs, law, total)
    assert deviation > 10 if broken else abs(deviation) < 4


@pytest.mark.parametrize(
    "settings",
    [{"temperature": 1e-6}, {"temperature": 1e-5}, {"temperature": 1.0, "top_k": 1}, {"temperature": 0.0}],
)
def test_case_10_nearly_zero_temperatures_are_greedy(settings: dict[str, Any]) -> None:
    engine = TinyEngine()
    greedy = plain(engine, LETTERS, request(PROMPT, 24, logprobs=0))
    for drafter in (draft_model(engine, TinyEngine(seed=1, like=engine)), draft_model(engine, TinyEngine())):
        generation = decode(engine, drafter, LETTERS, request(PROMPT, 24, logprobs=0, **settings))
        assert generation.token_ids == greedy.token_ids
        assert generation.logprobs == greedy.logprobs
        assert generation.stats.num_accepted > 0


@pytest.mark.parametrize(
    "settings",
    [
        {"repetition_penalty": 1.8},
        {"frequency_penalty": 1.5},
        {"presence_penalty": 2.0},
        {"logit_bias": {21: 6.0, 16: float("-inf")}},
        {"min_p": 0.2, "temperature": 1.0},
    ],
)
def test_case_11_each_row_sees_the_tokens_before_it(settings: dict[str, Any]) -> None:
    """The drafter repeats one token through the block, and the target's choices depend on what repeats."""

    class Stutter(Drafter):
        name: ClassVar[str] = "stutter"

        def propose(self, ask: Ask) -> Draft:
            return Draft(np.full(ask.budget, ask.context.history[-1], np.int32))

    class Repeating(TinyEngine):
        """Wants the last token again, unless a penalty brings it below the rest."""

        def logits_after(self, token_ids: tuple[int, ...]) -> Any:
            logits = super().logits_after(token_ids) * np.float32(0.4)
            logits[token_ids[-1]] = 3.2
            return logits

    engine = Repeating()
    asked = request(PROMPT, 30, gamma=6, logprobs=1, **settings)
    base = plain(engine, LETTERS, asked)
    unsettled = plain(engine, LETTERS, request(PROMPT, 30, temperature=settings.get("temperature", 0.0)))
    assert base.token_ids != unsettled.token_ids, "the setting makes no difference here"
    generation = decode(engine, Stutter(None, DrafterResources(engine)), LETTERS, asked)
    assert (generation.token_ids, generation.logprobs) == (base.token_ids, base.logprobs)
    assert generation.stats.num_accepted > 0

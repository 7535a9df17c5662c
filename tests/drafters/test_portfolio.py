from __future__ import annotations

import numpy as np

from guessahead.drafters import registry
from guessahead.drafters.base import Drafter, DrafterResources
from guessahead.engines.replay import Recording, recordings
from guessahead.types import Ask, ChoiceContext, SamplingParams
from tests.support.fakes import ScriptEngine, TinyEngine
from tests.support.replaying import AVX512, FLAT, DraftModelCosts, replay, speed


def portfolio(history: list[int], script: list[int]) -> tuple[Drafter, ChoiceContext]:
    """The model's context ends two guesses after the history."""
    second = ScriptEngine(script, 24, context_length=len(history) + 1)
    setup = DrafterResources(TinyEngine(), second)  # type: ignore[arg-type]
    drafter = registry.make("portfolio", {}, setup)
    choice = ChoiceContext(SamplingParams(seed=0), np.array(history, np.int32), 1)
    drafter.begin(choice)
    return drafter, choice


def test_at_a_fixed_gamma_both_guess_into_one_tree() -> None:
    drafter, choice = portfolio([1, 2, 9, 1, 2], [0, 0, 0, 0, 0, 7, 8])
    draft = drafter.propose(Ask(choice, 8))
    parents = draft.parents
    assert parents is not None
    roots = [int(draft.token_ids[i]) for i, parent in enumerate(parents) if parent == -1]
    assert sorted(roots) == [7, 9]
    assert set(draft.origins or ()) == {"suffix", "draft-model"}
    drafter.end()


def test_a_sure_repetition_does_not_wait_for_the_model() -> None:
    history = [*range(1, 20), *range(1, 19)]
    drafter, choice = portfolio(history, [0])
    draft = drafter.propose(Ask(choice, 1))
    assert draft.origins == ("suffix",)
    assert draft.token_ids.tolist() == [19]
    drafter.end()


def noise(count: int) -> Recording:
    text = np.random.default_rng(1).permutation(900)[:count].astype(np.int32)
    return Recording("noise", "noise", text[:32], text[32:])


def test_the_model_serves_text_that_does_not_repeat() -> None:
    model = DraftModelCosts(0.1, 0.85)
    with_both, alone = (
        speed(replay(noise(700), name, "auto", v=FLAT, model=model, vocab_size=1000).stats)
        for name in ("portfolio", "draft-model")
    )
    assert with_both > 1.5
    assert with_both >= 0.95 * alone


def test_the_text_itself_serves_where_the_model_is_poor() -> None:
    for each in recordings():
        if each.category == "rag":
            poor = DraftModelCosts(0.5, 0.3)
            without = speed(replay(each, "portfolio", "auto", v=AVX512).stats)
            assert speed(replay(each, "portfolio", "auto", v=AVX512, model=poor).stats) >= 0.9 * without


def test_both_together_beat_each_alone() -> None:
    model = DraftModelCosts(0.15, 0.8)
    total = dict.fromkeys(("portfolio", "suffix", "draft-model"), 0.0)
    for each in recordings()[::4]:
        for name in total:
            second = None if name == "suffix" else model
            total[name] += replay(each, name, "auto", v=AVX512, model=second).stats.decode_seconds
    assert total["portfolio"] < 0.95 * min(total["suffix"], total["draft-model"])

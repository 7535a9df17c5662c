from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from guessahead.drafters import registry
from guessahead.drafters.base import DrafterResources
from guessahead.drafters.draft_model import DraftModel
from guessahead.drafters.model_base import DraftModelOptions
from guessahead.errors import ParameterError, StateError
from guessahead.types import Ask, ChoiceContext, SamplingParams, Verdict
from tests.support.fakes import ScriptEngine, TinyEngine

VOCAB = 24


def choice(history: list[int], **params: Any) -> ChoiceContext:
    return ChoiceContext(SamplingParams(**{"seed": 0} | params), np.array(history, np.int32), 1, eos_ids=(9,))


def verdict(*token_ids: int, num_accepted: int) -> Verdict:
    return Verdict(np.arange(num_accepted, dtype=np.int32), np.array(token_ids, np.int32), num_accepted)


def begun(engine: Any, history: list[int]) -> DraftModel:
    drafter = DraftModel(DraftModelOptions(siblings=0), DrafterResources(TinyEngine(VOCAB), engine))  # type: ignore[arg-type]
    drafter.begin(choice(history))
    return drafter


def fed(engine: Any) -> list[list[int]]:
    return [rows.token_ids.tolist() for rows in engine.calls]


def test_draft_model_feeds_each_token_once() -> None:
    engine = ScriptEngine([0, 1, 2, 3, 4, 5, 6, 7, 8], VOCAB)
    drafter = begun(engine, [0, 1])
    assert engine.calls == [], "the prompt is read by the first draft"
    assert drafter.propose(Ask(choice([0, 1]), 3)).token_ids.tolist() == [2, 3, 4]
    assert fed(engine) == [[0, 1], [2], [3]]
    drafter.observe(verdict(2, 3, 4, 5, num_accepted=3), None)
    engine.calls.clear()
    assert drafter.propose(Ask(choice([0, 1, 2, 3, 4, 5]), 2)).token_ids.tolist() == [6, 7]
    assert fed(engine) == [[4, 5], [6]], "after full acceptance two tokens are missing"


@pytest.mark.parametrize("num_accepted", range(3))
def test_draft_model_rolls_back_to_what_is_right(num_accepted: int) -> None:
    engine = ScriptEngine([0, 1, 2, 3, 4, 5, 6, 7, 8], VOCAB)
    drafter = begun(engine, [0, 1])
    drafter.propose(Ask(choice([0, 1]), 3))
    accepted = [2, 3, 4][:num_accepted]
    drafter.observe(verdict(*accepted, 20, num_accepted=num_accepted), None)
    engine.calls.clear()
    drafter.propose(Ask(choice([0, 1, *accepted, 20]), 1))
    assert fed(engine) == [[20]]


def test_draft_model_without_a_draft_catches_up_later() -> None:
    engine = ScriptEngine([0, 1, 2, 3, 4, 5, 6, 7, 8], VOCAB)
    drafter = begun(engine, [0])
    drafter.observe(verdict(1, num_accepted=0), None)
    drafter.observe(verdict(2, num_accepted=0), None)
    assert drafter.propose(Ask(choice([0, 1, 2]), 1)).token_ids.tolist() == [3]
    assert fed(engine) == [[0, 1, 2]]


def test_draft_model_stops_after_eos() -> None:
    drafter = begun(ScriptEngine([0, 1, 9, 3], VOCAB), [0])
    assert drafter.propose(Ask(choice([0]), 4)).token_ids.tolist() == [1, 9]


def test_draft_model_stops_at_its_own_context() -> None:
    drafter = begun(ScriptEngine(list(range(9)), VOCAB, context_length=5), [0, 1, 2])
    assert drafter.propose(Ask(choice([0, 1, 2]), 8)).token_ids.tolist() == [3, 4, 5], (
        "the last one is not fed"
    )
    drafter.observe(verdict(3, 4, 5, 6, num_accepted=3), None)
    assert len(drafter.propose(Ask(choice([0, 1, 2, 3, 4, 5, 6]), 8))) == 0


def test_draft_model_shares_the_noise() -> None:
    """The same model, parameters and seed: the draft is what the target would sample; with another, not."""
    engine = TinyEngine()
    drafted = (
        begun(engine, [1, 2]).propose(Ask(choice([1, 2], temperature=1.5, seed=7), 12)).token_ids.tolist()
    )
    target = TinyEngine(VOCAB)
    assert (
        drafted
        == begun(target, [1, 2]).propose(Ask(choice([1, 2], temperature=1.5, seed=7), 12)).token_ids.tolist()
    )
    assert (
        drafted
        != begun(target, [1, 2]).propose(Ask(choice([1, 2], temperature=1.5, seed=8), 12)).token_ids.tolist()
    )


def test_draft_model_accepts_settings_of_ids_it_lacks() -> None:
    engine = TinyEngine(12)
    drafter = begun(engine, [1, 2])
    asked = ChoiceContext(
        SamplingParams(temperature=1.0, seed=1, logit_bias={23: 5.0}, min_tokens=4, repetition_penalty=1.2),
        np.array([1, 2], np.int32),
        1,
        eos_ids=(23,),
    )
    assert len(drafter.propose(Ask(asked, 4))) == 4


def test_draft_model_outside_a_generation() -> None:
    engine = TinyEngine()
    drafter = begun(engine, [1])
    drafter.end()
    assert engine.num_open == 0
    drafter.end()  # nothing left to close
    with pytest.raises(StateError, match="outside begin"):
        drafter.propose(Ask(choice([1]), 2))
    with pytest.raises(ParameterError, match="second model"):
        DraftModel(DraftModelOptions(siblings=0), DrafterResources(engine))  # type: ignore[arg-type]


def test_lookup_is_surer_after_longer_matches() -> None:
    drafter = registry.make("prompt-lookup", {"min_ngram": 1}, DrafterResources(TinyEngine()))  # type: ignore[arg-type]
    short = drafter.propose(Ask(choice([5, 1, 2, 8, 2]), 2)).probabilities
    drafter.begin(choice([1]))
    long = drafter.propose(Ask(choice([5, 1, 2, 8, 5, 1, 2]), 2)).probabilities
    assert short is not None
    assert long is not None
    assert 0 < short[0] < short[1] < long[0] < long[1] < 1


def test_lookup_takes_in_new_tokens_as_they_come() -> None:
    drafter = registry.make("prompt-lookup", {}, DrafterResources(TinyEngine()))  # type: ignore[arg-type]
    history = [1, 2, 3, 4]
    assert len(drafter.propose(Ask(choice(history), 2))) == 0
    history += [1, 2]
    assert drafter.propose(Ask(choice(history), 2)).token_ids.tolist() == [3, 4]
    history += [7, 1, 2]
    assert drafter.propose(Ask(choice(history), 2)).token_ids.tolist() == [7, 1]

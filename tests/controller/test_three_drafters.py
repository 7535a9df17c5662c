"""One free drafter and two that pay for every guess: in each step, whoever is worth most is asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from guessahead.drafters.base import Drafter, DrafterResources
from guessahead.drafters.draft_model import DraftModel
from guessahead.drafters.model_base import DraftModelOptions
from guessahead.drafters.suffix import Suffix, SuffixOptions
from guessahead.engines.replay import Recording, ReplayCosts, ReplayEngine, VirtualClock, recordings
from guessahead.runners.solo import SpeculativeDecoder
from guessahead.types import (
    Ask,
    ChoiceContext,
    Draft,
    Generation,
    HiddenStates,
    Request,
    SamplingParams,
    Verdict,
)
from tests.support.replaying import AVX512, FLAT, WordTokenizer, speed

VOCAB = 1000
Accuracy = float | Callable[[int], float]


class Head(DraftModel):
    """Cheap, and right less often."""

    name: ClassVar[str] = "head"


@dataclass(frozen=True)
class Model:
    """Of a drafter that pays per guess: its class, what a guess costs, and how often it is right."""

    kind: type[DraftModel]
    c: float
    accuracy: Accuracy


class Several(Drafter):
    """`suffix` and the models, in the given order."""

    name: ClassVar[str] = "several"

    def __init__(self, members: Sequence[Drafter]) -> None:
        self._members = tuple(members)

    @property
    def members(self) -> tuple[Drafter, ...]:
        return self._members

    def begin(self, context: ChoiceContext) -> None:
        for member in self._members:
            member.begin(context)

    def propose(self, ask: Ask) -> Draft:
        raise AssertionError("the controller asks the members")

    def observe(self, verdict: Verdict, hidden: HiddenStates | None) -> None:
        for member in self._members:
            member.observe(verdict, hidden)

    def end(self) -> None:
        for member in self._members:
            member.end()


def run(recording: Recording, models: Sequence[Model], v: Sequence[float] = FLAT) -> Generation:
    """In virtual time, with the trace."""
    clock = VirtualClock()
    text = np.concatenate([recording.prompt_ids, recording.token_ids])
    vocab_size = max(VOCAB, int(text.max()) + 1)
    target = ReplayEngine(text, ReplayCosts(1.0, tuple(v)), clock, vocab_size=vocab_size)
    members: list[Drafter] = [Suffix(SuffixOptions(), DrafterResources(target))]
    for model in models:
        costs, luck = ReplayCosts(model.c, tuple(v)), len(model.kind.name)  # each has its own, in any company
        engine = ReplayEngine(text, costs, clock, vocab_size=vocab_size, accuracy=model.accuracy, seed=luck)
        members.append(model.kind(DraftModelOptions(siblings=0), DrafterResources(target, engine)))
    decoder = SpeculativeDecoder(target, Several(members), WordTokenizer(), clock=clock)  # type: ignore[arg-type]
    request = Request(
        recording.prompt_ids, SamplingParams(seed=0), len(recording.token_ids), "auto", trace=True
    )
    generation = decoder.generate(request)
    assert generation.token_ids == tuple(recording.token_ids.tolist())
    return generation


def questions(generation: Generation, last: int = 10**9) -> Counter[str]:
    """Whom the last steps asked, and how often."""
    assert generation.trace is not None
    steps: list[Any] = list(generation.trace["steps"])[-last:]
    members = [member for step in steps for member in step.get("why", {}).get("members", [])]
    return Counter(member["drafter"] for member in members if member["decision"] == "asked")


def unrepeated(count: int = 700) -> Recording:
    text = np.random.default_rng(1).permutation(VOCAB - 100)[:count].astype(np.int32)
    return Recording("noise", "noise", text[:32], text[32:])


GOOD_HEAD, POOR_HEAD = Model(Head, 0.07, 0.75), Model(Head, 0.07, 0.3)
GOOD_MODEL, POOR_MODEL = Model(DraftModel, 0.2, 0.85), Model(DraftModel, 0.3, 0.3)


@pytest.mark.parametrize("v", [FLAT, AVX512], ids=["flat", "avx512"])
@pytest.mark.parametrize("head", [GOOD_HEAD, POOR_HEAD], ids=["good-head", "poor-head"])
@pytest.mark.parametrize("model", [GOOD_MODEL, POOR_MODEL], ids=["good-model", "poor-model"])
def test_as_fast_as_the_better_of_both_in_either_order(model: Model, head: Model, v: Any) -> None:
    alone = max(speed(run(unrepeated(), [each], v).stats) for each in (head, model))
    for order in ((head, model), (model, head)):
        found = speed(run(unrepeated(), order, v).stats)
        assert found >= 0.9 * alone, "what it takes to find out whom to ask"


@pytest.mark.parametrize("v", [FLAT, AVX512], ids=["flat", "avx512"])
def test_each_serves_the_stretches_where_it_is_the_better_one(v: Any) -> None:
    head = Model(Head, 0.07, lambda position: 0.8 if position % 100 < 50 else 0.1)
    model = Model(DraftModel, 0.2, lambda position: 0.1 if position % 100 < 50 else 0.9)
    alone = max(speed(run(unrepeated(), [each], v).stats) for each in (head, model))
    both = run(unrepeated(), [head, model], v)
    assert speed(both.stats) > 1.3 * alone
    asked = questions(both)
    assert min(asked["head"], asked["draft-model"]) > 0.2 * asked["suffix"]


@pytest.mark.parametrize("v", [FLAT, AVX512], ids=["flat", "avx512"])
def test_a_head_that_begins_to_fail_gives_way_to_the_model(v: Any) -> None:
    head = Model(Head, 0.07, lambda position: 0.8 if position < 350 else 0.1)
    both = run(unrepeated(), [head, GOOD_MODEL], v)
    assert speed(both.stats) > 0.9 * max(
        speed(run(unrepeated(), [each], v).stats) for each in (head, GOOD_MODEL)
    )
    asked = questions(both, last=80)
    assert asked["draft-model"] > 3 * asked["head"]


def test_a_sure_repetition_asks_neither() -> None:
    """Copied text: `suffix` finds more than two models of such costs could add."""
    line = np.arange(40, dtype=np.int32)
    text = np.tile(line, 12)
    copied = run(Recording("copy", "copy", text[:80], text[80:]), [GOOD_HEAD, GOOD_MODEL], AVX512)
    asked = questions(copied, last=10)
    assert asked == {"suffix": asked["suffix"]}


def test_a_costly_model_does_not_come_on_top_of_a_good_head() -> None:
    """Real text, where `suffix` helps, too: as fast as without the model, which would be asked for little."""
    head, model = Model(Head, 0.07, 0.75), Model(DraftModel, 0.3, 0.85)
    both, alone = (
        sum(run(each, models, AVX512).stats.decode_seconds for each in recordings()[1:20:9])
        for models in ([head, model], [head])
    )
    assert both <= 1.02 * alone

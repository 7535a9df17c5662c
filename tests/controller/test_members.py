"""What is known of a drafter, and the guesses of one step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from guessahead.controller.members import MAX_SURPRISE, READ_SHARE, Candidates, Member
from guessahead.controller.running import Mean
from guessahead.drafters.base import STATED_PRIOR, Drafter, DrafterResources
from guessahead.engines.replay import ReplaySequence, VirtualClock
from guessahead.types import Draft, Int32
from tests.controller import test_three_drafters as three
from tests.support.fakes import TinyEngine
from tests.support.replaying import AVX512, FLAT, speed


class Free(Drafter):
    name = "free"
    prior = STATED_PRIOR


class Unknown(Drafter):
    name = "unknown"


class Paid(Drafter):
    name = "paid"
    pays_per_guess = True
    prior = STATED_PRIOR
    relative_cost = 0.1


def member(kind: type[Drafter]) -> Member:
    return Member(kind(None, DrafterResources(TinyEngine())))


def draft(
    tokens: list[int], parents: list[int] | None = None, probabilities: list[float] | None = None
) -> Draft:
    return Draft(
        np.array(tokens, np.int32),
        None if parents is None else np.array(parents, np.int32),
        None if probabilities is None else np.array(probabilities, np.float32),
    )


def test_a_mean_forgets() -> None:
    mean = Mean(0.5, 7.0)
    assert mean.value == 7.0
    mean.learn(1.0)
    assert mean.value == 1.0, "the first value had no weight"
    mean.learn(4.0)
    assert mean.value == 3.0, "1 counts half as much as 4"


def test_equal_guesses_are_one_node_and_likelier() -> None:
    candidates, one, other = Candidates(), member(Free), member(Paid)
    candidates.add(draft([5, 6], None, [0.65, 0.65]), one)
    candidates.add(draft([5, 9], None, [0.65, 0.65]), other)
    assert [node.token for node in candidates.nodes] == [5, 6, 9]
    first, second, third = (node.path_probability for node in candidates.nodes)
    assert first == pytest.approx(1.0 - 0.35**2)
    assert second == pytest.approx(0.65 * 0.65)
    assert third == pytest.approx(first * 0.65)
    assert [who.drafter.name for who, _ in candidates.nodes[0].sources] == ["free", "paid"]


def test_a_part_of_the_tree_is_picked() -> None:
    candidates = Candidates()
    candidates.add(draft([5, 6, 7, 8], [-1, -1, 0, 1], [0.8, 0.2, 0.7, 0.9]), member(Free))
    ranked = candidates.ranked()
    assert [node.token for node in ranked] == [5, 7, 6, 8]
    picked = candidates.pick(ranked[:3])
    assert picked.token_ids.tolist() == [5, 7, 6]
    assert picked.parents is not None
    assert picked.parents.tolist() == [-1, 0, -1]
    assert picked.expected == pytest.approx(sum(node.path_probability for node in ranked[:3]))
    assert picked.origins == ("free",) * 3
    assert candidates.pick(ranked[:2]).parents is None, "a chain"


def test_a_sampled_draft_is_picked_whole() -> None:
    candidates = Candidates()
    candidates.add(draft([5, 6]), member(Free))
    q = (np.ones(9) / 9, np.ones(9) / 9)
    candidates.add(Draft(np.array([5, 7], np.int32), distributions=q), member(Paid))
    picked = candidates.pick(candidates.sampled)
    assert picked.token_ids.tolist() == [5, 7]
    assert picked.distributions is q
    assert picked.origins == ("paid", "paid")


def test_guesses_are_scored_along_the_tokens_that_came() -> None:
    """The likeliest guess for each position counts for the mean, every guess for its bucket."""
    candidates, who = Candidates(), member(Free)
    candidates.add(draft([5, 6, 7, 8], [-1, -1, 1, 2], [0.5, 0.35, 0.65, 0.65]), who)
    before = [who.track.probability(each, depth) for each, depth in ((0.5, 0), (0.35, 0), (0.65, 1))]
    candidates.score([6, 7, 9, 8])
    after = [who.track.probability(each, depth) for each, depth in ((0.5, 0), (0.35, 0), (0.65, 1))]
    assert (who.track.num_scored, who.track.num_hits) == (3, 1)
    assert after[0] < before[0], "5 was wrong"
    assert after[2] < before[2], "7 was right, 8 was wrong"


def test_what_a_drafter_costs_is_learned() -> None:
    free, paid = member(Free), member(Paid)
    free.learn_time(0.5, draft([1]), 0)
    assert free.time.value == 0.5
    assert paid.time.value == 0.1
    paid.learn_time(0.3, draft([1, 2, 3, 4], [-1, 0, -1, 1]), 1)
    assert paid.time.value == pytest.approx(0.1), "three guesses, one of them with a sibling"
    paid.learn_time(100.0, draft([1]), 1)
    assert paid.time.value < MAX_SURPRISE * 0.1 + 1e-9, "a core was stolen"
    known = paid.time.value
    paid.learn_time(0.0, draft([]), 1)
    assert paid.time.value == known


def test_reading_is_learned_apart_from_guessing(monkeypatch: pytest.MonkeyPatch) -> None:
    paid = member(Paid)
    monkeypatch.setattr(Paid, "lag", lambda *_: 101)
    assert paid.reading(None) == pytest.approx(100 * READ_SHARE * 0.1)  # type: ignore[arg-type]
    paid.learn_time(2.1, draft([1]), 100)
    assert paid.time.value == 0.1
    assert paid.reading(None) == pytest.approx(2.0)  # type: ignore[arg-type]


def test_an_unknown_drafter_is_trusted_step_by_step() -> None:
    unknown, known = member(Unknown), member(Free)
    assert (unknown.trusted(10), known.trusted(10)) == (1, 10)
    unknown.track.record_position(True)
    assert unknown.trusted(10) == 3
    for _ in range(5):
        unknown.track.record_position(True)
    assert unknown.trusted(10) == 10


@pytest.mark.parametrize("v", [FLAT, AVX512], ids=["flat", "avx512"])
def test_a_head_that_does_not_pay_for_its_handling_is_left_alone(
    v: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Right a third of the time, and cheap; but whatever has guesses takes half a pass more to unpack."""
    keep = ReplaySequence.keep

    def slow_keep(self: ReplaySequence, path: Int32) -> None:
        if len(self.tentative) > 1:
            clock.advance(0.5)
        keep(self, path)

    clock = VirtualClock()
    monkeypatch.setattr(three, "VirtualClock", lambda: clock)
    head = three.Model(three.Head, 0.05, 0.35)
    alone = speed(three.run(three.unrepeated(), [head], v).stats)
    assert alone > 1.1
    monkeypatch.setattr(ReplaySequence, "keep", slow_keep)
    assert speed(three.run(three.unrepeated(), [head], v).stats) > 0.95

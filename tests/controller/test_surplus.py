"""Promises held against what came of them."""

from __future__ import annotations

from typing import Any

import pytest

from guessahead.controller.members import MOST_REST, Member
from guessahead.controller.running import Pace
from guessahead.controller.surplus import MOST, Surplus
from guessahead.engines.replay import ReplaySequence, VirtualClock
from guessahead.types import Int32
from tests.controller import test_three_drafters as three
from tests.support.replaying import AVX512, FLAT, Hostile, speed


def test_kept_promises_leave_no_surplus() -> None:
    surplus = Surplus()
    for _ in range(50):
        surplus.learn(0.3, 0.3)
    assert surplus.mean == 0.0


def test_a_lasting_difference_is_learned_and_a_single_one_is_not() -> None:
    surplus = Surplus()
    surplus.learn(0.5, -100.0)
    assert -MOST / 10 < surplus.mean < 0.0
    for _ in range(200):
        surplus.learn(0.5, 0.3)
    assert surplus.mean == pytest.approx(-0.2 * 33 / (33 + 20), abs=0.02)


def test_handling_is_what_steps_with_guesses_take_more() -> None:
    pace = Pace()
    assert pace.handling_seconds == 0.0
    for _ in range(30):
        pace.rest(False, 1.0)
    assert pace.handling_seconds == 0.0, "none was seen with guesses"
    for _ in range(30):
        pace.rest(True, 1.4)
    assert pace.handling_seconds == pytest.approx(0.4)
    pace.rest(True, 1000.0)
    assert pace.handling_seconds < 0.6, "a stolen core"


def test_who_was_declined_rests_longer_each_time_and_wakes_at_once() -> None:
    member = Member(Hostile(None, None))  # type: ignore[arg-type]
    pauses = []
    for _ in range(5):
        member.decline()
        pauses.append(0)
        while member.resting():
            pauses[-1] += 1
    assert pauses == [1, MOST_REST, MOST_REST, MOST_REST, MOST_REST]
    member.decline()
    member.wake()
    assert not member.resting()


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

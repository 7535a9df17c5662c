from __future__ import annotations

import numpy as np
import pytest

from guessahead.engines.replay import ReplayCosts, ReplayEngine, VirtualClock, recordings
from guessahead.errors import ParameterError, PromptError, StateError
from guessahead.protocols import Rows
from guessahead.types import ChoiceContext, Int32, SamplingParams
from tests.support.replaying import replay, speed

TEXT = [5, 6, 7, 8, 9, 10, 11, 12]


def ids(*tokens: int) -> Int32:
    return np.array(tokens, np.int32)


def choice(num_tokens: int) -> ChoiceContext:
    return ChoiceContext(SamplingParams(seed=0), ids(*TEXT[:num_tokens]), 1)


def engine(**rest: object) -> tuple[ReplayEngine, VirtualClock]:
    clock = VirtualClock()
    return ReplayEngine(TEXT, ReplayCosts(2.0, (1.0, 1.5, 1.75)), clock, **rest), clock  # type: ignore[arg-type]


def test_all_logits_of_a_draft_are_there_where_they_are_wanted() -> None:
    replayed, _ = engine()
    rows = Rows(replayed.new_sequence(), ids(5, 3, 9), context=choice(1), choose_from=0, want_logits="all")
    [output] = replayed.forward([rows])
    assert output.chosen.tolist() == [-1, -1, -1]
    assert output.logits is not None
    assert {row: int(logits.argmax()) for row, logits in output.logits.items()} == {0: 6, 1: 7, 2: 8}


def test_the_text_is_chosen_along_the_right_path() -> None:
    replayed, _ = engine()
    sequence = replayed.new_sequence()
    rows = Rows(sequence, ids(5, 6, 3, 7, 4), ids(-1, 0, 0, 1, 3), choice(1), 0, want_logits="path")
    [output] = replayed.forward([rows])
    assert output.chosen.tolist() == [6, 7, -1, 8, -1]
    assert output.logits is not None
    assert {row: int(logits.argmax()) for row, logits in output.logits.items()} == {0: 6, 1: 7, 3: 8}
    with pytest.raises(StateError, match="not a tentative child"):
        sequence.keep(ids(3))
    sequence.keep(ids(1, 3))
    assert sequence.length == 3
    [output] = replayed.forward([Rows(sequence, ids(8), context=choice(4))])
    assert output.chosen.tolist() == [9]


def test_passes_cost_what_they_are_said_to_cost() -> None:
    replayed, clock = engine(max_rows=4)
    sequence = replayed.new_sequence()
    for num_rows, v in ((1, 1.0), (2, 1.5), (4, 2.0)):
        before = clock()
        replayed.forward([Rows(sequence, ids(*range(num_rows)))])
        assert clock() - before == 2.0 * v
    sequence.rollback(0)
    before = clock()
    [output] = replayed.forward([Rows(sequence, ids(*range(6)))])
    assert (output.num_passes, clock() - before) == (2, 2.0 * 2.0 + 2.0 * 1.5)
    assert ReplayCosts(1.0, (1.0,), context_slope=0.01).of(2, 100) == 3.0


def test_a_draft_model_is_right_as_often_as_it_is_said_to_be() -> None:
    text = np.arange(2000, dtype=np.int32)
    replayed = ReplayEngine(text, ReplayCosts(), VirtualClock(), accuracy=0.7, seed=3)
    sequence = replayed.new_sequence()
    right = 0
    for position in range(1999):
        asked = ChoiceContext(SamplingParams(), text[: position + 1], 1)
        [output] = replayed.forward([Rows(sequence, text[position : position + 1], context=asked)])
        right += int(output.chosen[0]) == position + 1
    assert right / 1999 == pytest.approx(0.7, abs=0.03)


def test_misuse_is_refused() -> None:
    replayed, _ = engine()
    sequence = replayed.new_sequence()
    with pytest.raises(PromptError, match="over"):
        replayed.forward([Rows(sequence, ids(*range(20)))])
    with pytest.raises(StateError, match="roll back"):
        replayed.new_sequence().rollback(1)
    closed = replayed.new_sequence()
    closed.close()
    with pytest.raises(StateError, match="closed"):
        _ = closed.length
    with pytest.raises(ParameterError, match="no text"):
        ReplayEngine([], ReplayCosts(), VirtualClock())


def test_recordings_are_whole() -> None:
    found = recordings()
    assert len(found) == 24
    assert len({each.name for each in found}) == 24
    assert all(len(each.prompt_ids) > 20 and 0 < len(each.token_ids) <= 256 for each in found)


def test_plain_decoding_is_the_unit_of_speed() -> None:
    assert speed(replay(recordings()[0], "none", "auto").stats) == pytest.approx(1.0)

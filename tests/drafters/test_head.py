"""The drafter `head`: what it reads, when, and what it makes of it. FakeHead checks every row of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from guessahead.drafters import registry
from guessahead.drafters.base import Drafter, DrafterResources
from guessahead.drafters.head import Head, HeadOptions
from guessahead.errors import ModelWarning, StateError
from guessahead.protocols import Rows
from guessahead.types import (
    EMPTY_IDS,
    Ask,
    ChoiceContext,
    Draft,
    Float32,
    HiddenStates,
    Int32,
    SamplingParams,
    StopRule,
    Verdict,
)
from tests.support.fake_head import FakeHead, FakeHeadSequence
from tests.support.fake_text import letters
from tests.support.fakes import TinyEngine, decode, plain, request

PROMPT = [5, 6, 7, 5, 6, 7, 5]
LETTERS = letters(24)


def made(engine: TinyEngine, **options: Any) -> tuple[Any, FakeHead]:
    head = FakeHead(engine)
    return registry.make("head", options, DrafterResources(engine, head=lambda _: head)), head  # type: ignore[arg-type, return-value]


def show(drafter: Drafter, first: int, hidden: Mapping[int, Float32] | None) -> None:
    """The target's pass showed the states of positions from `first` on."""
    assert hidden is not None
    drafter.observe(Verdict(EMPTY_IDS, EMPTY_IDS, 0), HiddenStates(first, hidden))


def shown(
    engine: TinyEngine, history: list[int], head: FakeHead | None = None, **options: int
) -> tuple[Any, ChoiceContext]:
    """A drafter that has seen all but the last token."""
    head = head or FakeHead(engine)
    drafter = Head(HeadOptions(**options), DrafterResources(engine, head=lambda _: head))  # type: ignore[arg-type, return-value]
    choice = ChoiceContext(SamplingParams(seed=0), np.array(history, np.int32), 1)
    drafter.begin(choice)
    cached = np.array(history[:-1], np.int32)
    [output] = engine.forward([Rows(engine.new_sequence(), cached, want_hidden=drafter.needs_hidden)])
    show(drafter, 0, output.hidden)
    return drafter, choice


@pytest.mark.parametrize(
    "settings",
    [{}, {"temperature": 0.9, "top_p": 0.9}, {"temperature": 1.0, "acceptance": "rejection"}],
    ids=str,
)
def test_every_position_is_read_once_with_the_token_behind_it(settings: dict[str, Any]) -> None:
    engine = TinyEngine()
    drafter, head = made(engine)
    generation = decode(engine, drafter, LETTERS, request(PROMPT, 40, 4, **settings))
    text = (*PROMPT, *generation.token_ids)
    assert len(head.read_texts) > len(text) - 8, "but for the last step, all of it"
    assert head.read_texts == [text[: i + 2] for i in range(len(head.read_texts))]
    assert 5 < generation.stats.num_accepted < generation.stats.num_tested


class Shifted(Head):
    """Takes the hidden states of rejected guesses for those of the text: what it must never be given."""

    def observe(self, verdict: Verdict, hidden: HiddenStates | None) -> None:
        assert hidden is not None
        rolled = {layer: np.roll(states, 1, 0) for layer, states in hidden.layers.items()}
        super().observe(verdict, HiddenStates(hidden.first, rolled))


class Late(Head):
    """Pairs each state with its own token, not the next."""

    def _catch_up(self, sequence: Any, context: ChoiceContext) -> Any:
        return super()._catch_up(sequence, replace(context, history=context.history[:-1]))


@pytest.mark.parametrize("faulty", [Shifted, Late])
def test_a_wrong_pairing_is_caught(faulty: type[Head]) -> None:
    engine = TinyEngine()
    head = FakeHead(engine)
    drafter = faulty(HeadOptions(), DrafterResources(engine, head=lambda _: head))  # type: ignore[arg-type, return-value]
    asked = request(PROMPT, 12, 4)
    right = plain(engine, LETTERS, asked).token_ids
    try:
        decode(engine, drafter, LETTERS, asked)
    except AssertionError:
        return
    text = (*PROMPT, *right)
    assert any(read != text[: len(read)] for read in head.read_texts)


def test_of_a_long_prompt_it_reads_the_end() -> None:
    engine = TinyEngine()
    drafter, head = made(engine)
    prompt = (np.arange(1100) * 7 % 20).tolist()
    generation = decode(engine, drafter, LETTERS, request(prompt, 6, 2))
    text = (*prompt, *generation.token_ids)
    assert head.num_read[0] == 128
    first = len(head.read_texts[0])
    assert first == 1100 - 128 + 2, "a row holds the tokens up to its position, and the one behind it"
    assert head.read_texts == [text[: first + i] for i in range(len(head.read_texts))]


def test_it_begins_anew_where_the_cache_was_kept() -> None:
    """Positions that are never shown are left out."""
    engine = TinyEngine()
    drafter, head = made(engine)
    text = [1, 2, 3, 4, 5, 6]
    sequence = engine.new_sequence()
    engine.forward([Rows(sequence, np.array(text[:3], np.int32))])
    [output] = engine.forward([Rows(sequence, np.array(text[3:5], np.int32), want_hidden=(0, 1))])
    choice = ChoiceContext(SamplingParams(seed=0), np.array(text, np.int32), 6)
    drafter.begin(choice)
    show(drafter, 3, output.hidden)
    assert drafter.lag(choice) == 2
    assert len(drafter.propose(Ask(choice, 3))) == 3
    assert head.read_texts == [(1, 2, 3, 4, 5), (1, 2, 3, 4, 5, 6)]
    assert drafter.lag(choice) == 0


def test_guesses_are_the_heads_own_greedy_choices() -> None:
    engine = TinyEngine()
    head = FakeHead(engine)
    drafter, choice = shown(engine, [1, 2, 3, 4], head)
    draft: Draft = drafter.propose(Ask(choice, 8))
    assert len(draft) == 8
    text = [1, 2, 3, 4]
    while found := _children(draft, text[4:]):
        likely = head.draft_ids[np.argsort(-head._model.logits_after(tuple(text))[head.draft_ids])]
        assert found == likely[: len(found)].tolist()
        text.append(found[0])
    assert len(text) > 5
    assert draft.probabilities is not None
    assert np.all((draft.probabilities > 0) & (draft.probabilities <= 1))
    assert set(draft.token_ids.tolist()) <= set(head.draft_ids.tolist()) < set(range(24))


def _parents(draft: Draft) -> list[int]:
    return list(range(-1, len(draft) - 1)) if draft.parents is None else draft.parents.tolist()


def _depth(draft: Draft) -> int:
    depths: list[int] = []
    for parent in _parents(draft):
        depths.append(1 if parent < 0 else depths[parent] + 1)
    return max(depths, default=0)


def _children(draft: Draft, path: list[int]) -> list[int]:
    """Guesses behind a path of guesses."""
    parents, tokens, node = _parents(draft), draft.token_ids.tolist(), -1
    for token in path:
        [node] = [i for i in range(len(draft)) if parents[i] == node and tokens[i] == token]
    return [tokens[i] for i in range(len(draft)) if parents[i] == node]


class Counting(FakeHead):
    """num_rows: of each call of `grow`."""

    def __init__(self, target: TinyEngine) -> None:
        super().__init__(target)
        self.num_rows: list[int] = []

    def grow(
        self, sequence: FakeHeadSequence, tokens: Int32, states: Float32, parents: Int32
    ) -> tuple[Float32, dict[int, Float32]]:
        self.num_rows.append(len(tokens))
        return super().grow(sequence, tokens, states, parents)


def test_the_stop_rule_ends_a_draft() -> None:
    engine = TinyEngine()
    head = Counting(engine)
    drafter, choice = shown(engine, [1, 2, 3, 4], head)
    draft = drafter.propose(Ask(choice, 12, StopRule((0.0, 0.0))))
    assert _depth(draft) == 2
    assert len(head.num_rows) == 1, "the first guesses come with the reading"
    assert 2 <= head.num_rows[0] <= 1 + drafter.Options().width


def test_nothing_is_guessed_behind_the_end_of_the_text() -> None:
    engine = TinyEngine()
    drafter, choice = shown(engine, [1, 2, 3, 4])
    draft = drafter.propose(Ask(choice, 12))
    first = int(draft.token_ids[0])
    assert _children(draft, [first])
    drafter, choice = shown(engine, [1, 2, 3, 4])
    ended = drafter.propose(Ask(replace(choice, eos_ids=(first,)), 12))
    assert ended.token_ids[0] == first
    assert not _children(ended, [first])


@pytest.mark.parametrize("options", [{}, {"branches": 1, "width": 1}], ids=str)
def test_the_context_bounds_the_guesses(options: dict[str, int]) -> None:
    """The last guess is not fed, so one more fits than the cache has room for."""
    for room in range(4):
        engine = TinyEngine(context_length=5 + room)
        drafter, choice = shown(engine, [1, 2, 3, 4, 5, 6], **options)
        depth = _depth(drafter.propose(Ask(choice, 9)))
        assert 1 <= depth <= room + 1
        assert depth == room + 1 or not options


def test_without_hidden_states_there_are_no_guesses() -> None:
    engine = TinyEngine()
    drafter, _ = made(engine)
    choice = ChoiceContext(SamplingParams(), np.array([1, 2], np.int32), 1)
    drafter.begin(choice)
    assert len(drafter.propose(Ask(choice, 4))) == 0
    drafter, choice = shown(engine, [1, 2, 3])
    assert len(drafter.propose(Ask(choice, 4))) > 0
    drafter.observe(Verdict(np.empty(0, np.int32), np.array([4], np.int32), 0), None)
    assert len(drafter.propose(Ask(choice, 4))) == 0, "nothing new was shown"
    drafter.end()
    with pytest.raises(StateError, match="outside begin"):
        drafter.propose(Ask(choice, 4))


class Damaged(FakeHead):
    """Its weights yield nothing that is a number."""

    def _result(self, text: tuple[int, ...]) -> tuple[Float32, Float32]:
        state, logits = super()._result(text)
        return state, np.full_like(logits, np.nan)


@pytest.mark.parametrize(
    "settings", [{}, {"temperature": 0.9}, {"temperature": 0.9, "acceptance": "rejection"}], ids=str
)
def test_a_damaged_head_guesses_nothing(settings: dict[str, Any]) -> None:
    engine = TinyEngine()
    head = Damaged(engine)
    drafter = Head(HeadOptions(), DrafterResources(engine, head=lambda _: head))  # type: ignore[arg-type, return-value]
    asked = request(PROMPT, 12, 4, **settings)
    with pytest.warns(ModelWarning, match="the draft head computes numbers that are not finite") as caught:
        generation = decode(engine, drafter, LETTERS, asked)
    assert len(caught) == 1
    assert generation.token_ids == plain(engine, LETTERS, asked).token_ids
    assert generation.stats.num_tested == 0

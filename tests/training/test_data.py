"""Batches: nothing twice, nothing on both sides, no two texts in one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from guessahead.training.data import Batch, Corpus
from guessahead.types import Int32
from tests.training.making import made_text, stored

pytestmark = pytest.mark.reference

VOCAB = 50
NUM_TEXTS = 240


def texts() -> Iterator[tuple[list[int], list[int]]]:
    """Questions that differ, and answers."""
    rng = np.random.default_rng(1)
    for number in range(NUM_TEXTS):
        asked = [number // VOCAB, number % VOCAB, *rng.integers(0, VOCAB, rng.integers(1, 6)).tolist()]
        yield asked, rng.integers(0, VOCAB, rng.integers(3, 20)).tolist()


TEXTS = list(texts())


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Each question twice, with two answers, in different shards; and a text that is too short."""
    made = [made_text(asked, answer, number) for number, (asked, answer) in enumerate(TEXTS)]
    again = [made_text(asked, answer[::-1], number) for number, (asked, answer) in enumerate(TEXTS)]
    shards = [made[:100], [*again, made_text([1, 2], [3])], made[100:]]
    return Corpus(stored(tmp_path_factory.mktemp("data"), shards))


def segments(batch: Batch) -> Iterator[tuple[list[int], Int32, torch.Tensor, list[bool]]]:
    """Tokens, numbers of the text, hidden states and what is wanted, of each text of the batch."""
    tokens, text = batch.token_ids.flatten(), batch.text.flatten()
    hidden, wanted = batch.hidden.flatten(0, 1), batch.wanted.flatten()
    for number in text.unique_consecutive():
        rows = text == number
        yield tokens[rows].tolist(), text[rows].numpy(), hidden[rows].float(), wanted[rows].tolist()


def number_of(tokens: list[int]) -> int:
    """Which question a text begins with."""
    return tokens[0] * VOCAB + tokens[1]


def test_no_question_is_on_both_sides(corpus: Corpus) -> None:
    held = [number_of(batch.token_ids[0].tolist()) for batch in corpus.held_out(1000)]
    assert len(held) == len(set(held)) == corpus.num_held_out > 0
    pieces = [tokens for batch in corpus.epoch(0, 8, 2) for tokens, *_ in segments(batch)]
    trained = [number_of(tokens) for tokens in pieces if len(tokens) > 1]
    assert not set(held) & set(trained)
    assert len(set(trained)) > 100
    assert len(list(corpus.held_out(1))) == 1


def test_the_split_is_a_matter_of_the_question_alone(corpus: Corpus, tmp_path: Path) -> None:
    part = [made_text(asked, [7, 8, 9], number) for number, (asked, _) in enumerate(TEXTS[100:])]
    other = Corpus(stored(tmp_path, [part]))
    held = {number_of(batch.token_ids[0].tolist()) for batch in corpus.held_out(1000)}
    again = {number_of(batch.token_ids[0].tolist()) for batch in other.held_out(1000)}
    assert again == {number for number in held if number >= 100}


@pytest.mark.parametrize(("time", "batch"), [(16, 1), (16, 4), (50, 2)])
def test_windows_hold_whole_truths(corpus: Corpus, time: int, batch: int) -> None:
    """The pieces of a text are in order, with their own hidden states, and end where the batch does."""
    seen: list[int] = []
    for each in corpus.epoch(3, time, batch):
        assert each.token_ids.shape == each.text.shape == each.wanted.shape == (batch, time)
        found = list(segments(each))
        assert len({int(text[0]) for _, text, *_ in found}) == len(found), "a number for each text"
        for position, (tokens, _, hidden, wanted) in enumerate(found):
            if len(tokens) == 1:
                assert position == len(found) - 1, "a text is cut at the end of the batch only"
                continue
            number = number_of(tokens)
            asked, answer = TEXTS[number]
            whole = [*asked, *answer] if number < 100 else [*asked, *answer[::-1]]
            assert tokens == whole[: len(tokens)]
            assert len(tokens) == len(whole) or position == len(found) - 1
            assert wanted == [i >= len(asked) for i in range(len(tokens))]
            read = hidden[: len(whole) - 1]
            assert read[:, :, 0].eq(number).all()
            assert read[:, 0, 1].tolist() == list(range(len(read)))
            assert read[:, 0, 2].tolist() == tokens[: len(read)]
            seen.append(number)
    assert len(seen) == len(set(seen)), "once an epoch"
    assert len(seen) > 150


def test_epochs_differ_and_repeat(corpus: Corpus) -> None:
    first, again, other = ([batch.token_ids for batch in corpus.epoch(seed, 16, 4)] for seed in (0, 0, 1))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(first, other, strict=False))


def test_counts(corpus: Corpus) -> None:
    counts = corpus.counts(VOCAB)
    assert counts.sum() == corpus.num_tokens
    total = np.zeros(VOCAB, np.int64)
    held = {number_of(batch.token_ids[0].tolist()) for batch in corpus.held_out(1000)}
    for number, (asked, answer) in enumerate(TEXTS):
        if number not in held:
            total += np.bincount([*asked, *answer], minlength=VOCAB)
    assert counts.tolist() == total.tolist()

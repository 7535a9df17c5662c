"""Texts written many at a time are those that the model writes alone, and so are their hidden states."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import guessahead as ga
from guessahead.errors import ModelError
from guessahead.protocols import Rows
from guessahead.training import chats
from guessahead.training.batch import Text, Writing, WritingRequest, _loops, to_bfloat16, write
from guessahead.training.chats import Frame
from guessahead.types import Int32, SamplingParams
from tests.support.tiny import tiny_gguf
from tests.training.making import from_bfloat16

LAYERS = (0, 1)
PROMPTS = (
    "the quick brown",
    "a",
    "def function(self",
    "lazy dog and then",
    "x y z",
    "jumps",
    "over the lazy",
)
SAMPLED = SamplingParams(temperature=1.0, top_k=50, top_p=0.95, seed=11)


@pytest.fixture(scope="module")
def lm(tmp_path_factory: pytest.TempPathFactory) -> ga.LanguageModel:
    path = tiny_gguf(tmp_path_factory.mktemp("model") / "m.gguf", format="Q8_0", head_scale=8.0).path
    return ga.load(path, threads=1, context=160)


def two_turns(lm: ga.LanguageModel, prompt: str, said: list[tuple[Int32, Int32]]) -> Writing:
    """An answer, a few given tokens, and another answer. said: prompt and answer of both."""
    before = np.array(lm.tokenizer.encode(prompt), np.int32)
    ends = lm.tokenizer.eos_ids
    first = yield WritingRequest(before, SAMPLED, 20, ends, answer=True)
    said.append((before, first))
    given = np.array([65, 66, 67], np.int32)
    second = yield WritingRequest(given, SamplingParams(), 12, ends, answer=True)
    said.append((np.concatenate([before, first, given]), second))


def written(lm: ga.LanguageModel, slots: int) -> tuple[list[Text], list[list[tuple[Int32, Int32]]]]:
    said: list[list[tuple[Int32, Int32]]] = [[] for _ in PROMPTS]
    writings = [two_turns(lm, prompt, each) for prompt, each in zip(PROMPTS, said, strict=True)]
    return list(write(lm.runner.engine, writings, LAYERS, slots)), said


def test_texts_are_those_that_the_model_writes_alone(lm: ga.LanguageModel) -> None:
    _, said = written(lm, 3)
    num_compared = 0
    for turns in said:
        assert len(turns) == 2
        for (prompt, answer), (params, most) in zip(
            turns, ((SAMPLED, 20), (SamplingParams(), 12)), strict=True
        ):
            alone = lm.generate(
                prompt.tolist(),
                max_tokens=most,
                drafter="none",
                temperature=params.temperature,
                top_k=params.top_k,
                top_p=params.top_p,
                seed=params.seed,
            )
            assert answer.tolist() == list(alone.token_ids)
            num_compared += len(answer)
    assert num_compared > 100


def test_hidden_states_are_those_of_one_pass(lm: ga.LanguageModel) -> None:
    texts, said = written(lm, 5)
    assert len(texts) == len(PROMPTS)
    for text in texts:
        [output] = lm.runner.engine.forward(
            [Rows(lm.runner.engine.new_sequence(), text.token_ids[:-1], want_hidden=LAYERS)]
        )
        assert output.hidden is not None
        expected = to_bfloat16(np.stack([output.hidden[layer] for layer in LAYERS], axis=1))
        assert text.hidden.tobytes() == expected.tobytes()
        assert text.hidden.shape == (len(text.token_ids) - 1, len(LAYERS), 64)
    whole = {tuple(np.concatenate(turns[1])): turns for turns in said}
    for text in texts:
        (before, first), (between, _) = whole[tuple(text.token_ids)]
        marked = np.zeros(len(text.token_ids), bool)
        marked[len(before) : len(before) + len(first)] = True
        marked[len(between) :] = True
        assert text.answer.tolist() == marked.tolist()


def as_set(texts: list[Text]) -> set[tuple[bytes, bytes, bytes]]:
    return {(text.token_ids.tobytes(), text.answer.tobytes(), text.hidden.tobytes()) for text in texts}


def test_the_number_of_slots_changes_nothing(lm: ga.LanguageModel) -> None:
    frame = Frame.of(lm.chat_template, lm.tokenizer)
    found = [
        as_set(list(write(lm.runner.engine, chats.chats(frame, lm.tokenizer, seed, 6), LAYERS, slots)))
        for seed, slots in ((4, 1), (4, 2), (4, 16), (5, 16))
    ]
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == 6
    assert not found[0] & found[3]


def test_a_chat_is_what_the_template_makes_of_it(lm: ga.LanguageModel) -> None:
    frame = Frame.of(lm.chat_template, lm.tokenizer)
    assert lm.chat_template is not None

    def rendered(*turns: str) -> list[int]:
        roles = ("user", "assistant", "user")
        messages = [{"role": role, "content": turn} for role, turn in zip(roles, turns, strict=False)]
        return lm.tokenizer.encode(lm.chat_template.render(messages), special=True)  # type: ignore[union-attr, arg-type]

    def words(text: str) -> list[int]:
        return lm.tokenizer.encode(text)

    first, answer, again = (each.tolist() for each in (frame.first, frame.answer, frame.again))
    end = lm.tokenizer.encode("<|im_end|>", special=True)
    assert end[0] in frame.ends
    assert [*first, *words("dog"), *answer] == rendered("dog")
    whole = [*first, *words("dog"), *answer, *words("fox"), *end, *again, *words("cat"), *answer]
    assert whole == rendered("dog", "fox", "cat")


def test_chats_begin_with_an_opening(lm: ga.LanguageModel) -> None:
    frame = Frame.of(lm.chat_template, lm.tokenizer)
    openings = {tuple(lm.tokenizer.encode(each)) for each in chats.openings()}
    assert len(openings) > 100
    for text in write(lm.runner.engine, chats.chats(frame, lm.tokenizer, 0, 4), LAYERS, 4):
        tokens = text.token_ids.tolist()
        assert tokens[: len(frame.first)] == frame.first.tolist()
        rest = tokens[len(frame.first) :]
        assert any(tuple(rest[:size]) in openings for size in range(1, len(rest)))
        assert not text.answer[: len(frame.first) + 1].any()


class Silent:
    """A template that does not show what the user says."""

    def render(self, messages: object) -> str:
        return "<|im_start|>assistant\n"


def test_a_model_without_a_usable_template_is_refused(lm: ga.LanguageModel) -> None:
    with pytest.raises(ModelError, match="no chat template"):
        Frame.of(None, lm.tokenizer)
    with pytest.raises(ModelError, match="does not contain the user's text"):
        Frame.of(Silent(), lm.tokenizer)  # type: ignore[arg-type]


def test_a_text_ends_where_the_context_does(lm: ga.LanguageModel) -> None:
    """What does not fit is not begun, and the rest of the texts go on."""
    ends: list[int] = []

    def long() -> Iterator[WritingRequest]:
        given = np.full(50, 70, np.int32)
        for number in range(9):
            ends.append(number)
            yield WritingRequest(given)

    short = [WritingRequest(np.array([1, 2, 3], np.int32))]
    nothing: list[WritingRequest] = []
    texts = list(write(lm.runner.engine, [long(), _scripted(short), _scripted(nothing)], LAYERS, 2))  # type: ignore[list-item]
    assert sorted(len(text.token_ids) for text in texts) == [3, 150]
    assert ends == [0, 1, 2, 3]
    for text in texts:
        assert len(text.hidden) == len(text.token_ids), "no token was chosen that was not read"


def _scripted(asks: list[WritingRequest]) -> Writing:
    for ask in asks:
        _ = yield ask


@pytest.mark.parametrize(("period", "num"), [(1, 24), (3, 24), (6, 24), (7, 28), (32, 128)])
def test_circles_end_an_answer(period: int, num: int) -> None:
    line = list(range(100, 100 + period))
    text = (line * num)[:num]
    assert _loops([1, 2, *text])
    assert not _loops([1, 2, *text[:-1]])
    assert not _loops([*text, 5])


def test_an_answer_in_circles_is_cut(tmp_path: Path) -> None:
    model = ga.load(tiny_gguf(tmp_path / "m.gguf", seed=2).path, threads=1)
    ask = WritingRequest(np.array([65], np.int32), SamplingParams(logit_bias={70: 1e4}), 200)
    [text] = write(model.runner.engine, [_scripted([ask])], LAYERS, 1)
    assert text.token_ids.tolist() == [65] + [70] * 24


def test_bfloat16_is_rounded_to_nearest_even() -> None:
    exact = np.array([0.0, -0.0, 1.0, -2.5, 3.0e38, 2.0**-126, np.inf], np.float32)
    assert from_bfloat16(to_bfloat16(exact))[:4].tolist() == [0.0, -0.0, 1.0, -2.5]
    assert from_bfloat16(to_bfloat16(exact))[-1] == np.inf
    step = 2.0**-7
    ties = np.array([1 + step / 2, 1 + 3 * step / 2, 1 + step * 0.51, 1 + step * 0.49], np.float32)
    assert from_bfloat16(to_bfloat16(ties)).tolist() == [1.0, 1 + 2 * step, 1 + step, 1.0]
    values = np.random.default_rng(0).standard_normal(2000).astype(np.float32) * 100
    assert np.all(np.abs(from_bfloat16(to_bfloat16(values)) - values) <= np.abs(values) * 2.0**-8)

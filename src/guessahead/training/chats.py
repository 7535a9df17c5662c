"""Generation of chats: the model completes user turns from a few opening words, and answers them.

A drafter predicts the target's text, so the target's own text is the best training data.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import resources
from typing import Final

import numpy as np

from guessahead.errors import ModelError
from guessahead.text.chat_template import ChatTemplate
from guessahead.text.tokenizer import Tokenizer
from guessahead.training.batch import Writing, WritingRequest
from guessahead.types import Int32, SamplingParams

_USER: Final = SamplingParams(temperature=1.0, top_k=200, top_p=0.97)
_ANSWERS: Final = (  # most users decode greedily or at a low temperature
    SamplingParams(),
    SamplingParams(),
    SamplingParams(temperature=0.7, top_k=100, top_p=0.95),
    SamplingParams(temperature=1.0, top_k=200, top_p=0.97),
)
_MAX_USER: Final = 120
_MAX_ANSWER: Final = 320
_SECOND_TURN: Final = 0.25  # share of chats with two turns
_MARK: Final = "\N{OBJECT REPLACEMENT CHARACTER}"


@dataclass(frozen=True, slots=True)
class Frame:
    """The tokens that a chat template adds around a user's text.

    first: before the first turn. answer: between a user's text and the model's answer. again: between an
        answer, EOS included, and the user's next text. ends: tokens that end a turn.
    """

    first: Int32
    answer: Int32
    again: Int32
    ends: tuple[int, ...]

    @classmethod
    def of(cls, template: ChatTemplate | None, tokenizer: Tokenizer) -> Frame:
        """The frame of a template. Raises ModelError if there is none, or it omits the user's text."""
        if template is None:
            raise ModelError("this model has no chat template: train on files of your own instead")
        turn = {"role": "user", "content": _MARK}
        one = template.render([turn]).split(_MARK)
        two = template.render([turn, {"role": "assistant", "content": _MARK}, turn]).split(_MARK)
        if len(one) != 2 or len(two) != 4:
            raise ModelError("this model's chat template does not contain the user's text")

        def ids(text: str, bos: bool = False) -> list[int]:
            return tokenizer.encode_chat(text) if bos else tokenizer.encode(text, special=True, bos=False)

        again = ids(two[2])
        if again and again[0] in tokenizer.eos_ids:
            again = again[1:]  # the model has generated it itself
        answer = ids(one[1])
        ends = tuple(dict.fromkeys((*tokenizer.eos_ids, *answer[:1])))
        first, then, next_ = (np.array(each, np.int32) for each in (ids(one[0], bos=True), answer, again))
        return cls(first, then, next_, ends)


def openings() -> list[str]:
    """Opening words of many kinds of user turns."""
    text = resources.files("guessahead.data").joinpath("openings.txt").read_text("utf-8")
    return [line.replace("\\n", "\n") for line in text.splitlines()]


def chats(frame: Frame, tokenizer: Tokenizer, seed: int, num: int) -> Iterator[Writing]:
    """`num` chats for `batch.write`; the same seed gives the same chats."""
    starts = openings()
    for i in range(num):
        rng = np.random.default_rng((seed, i))
        yield _chat(frame, tokenizer, starts, rng)


def _chat(frame: Frame, tokenizer: Tokenizer, starts: list[str], rng: np.random.Generator) -> Writing:
    opening = starts[rng.integers(len(starts))]
    words = np.array(tokenizer.encode(opening, bos=False), np.int32)
    before = np.concatenate([frame.first, words])
    how = _ANSWERS[rng.integers(len(_ANSWERS))]
    for _ in range(2 if rng.random() < _SECOND_TURN else 1):
        said = yield WritingRequest(before, _seeded(_USER, rng), _MAX_USER, frame.ends)
        # A turn that the model ended itself already contains the first token of the next part.
        ended = len(said) > 0 and said[-1] == frame.answer[0]
        between = frame.answer[1:] if ended else frame.answer
        answer = yield WritingRequest(between, _seeded(how, rng), _MAX_ANSWER, tokenizer.eos_ids, answer=True)
        if len(answer) == 0 or answer[-1] not in tokenizer.eos_ids:
            return  # cut off: a user would not continue here
        before = frame.again


def _seeded(params: SamplingParams, rng: np.random.Generator) -> SamplingParams:
    return replace(params, seed=int(rng.integers(2**63)))

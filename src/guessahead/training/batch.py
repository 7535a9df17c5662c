"""Many texts at once through one engine, each written by a coroutine, with the hidden states of all tokens.

A coroutine yields an `Ask` (append these tokens, then choose up to so many) and is sent the tokens that were
chosen. As rows are independent, each hidden state is to the bit the one that a drafter will see when the same
text is generated alone.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from guessahead.engines.base import Engine, PassOutput, Rows, SequenceState
from guessahead.models.gguf.quantize import quantize
from guessahead.models.gguf.types import GGMLType
from guessahead.types import Choice, Int32, SamplingParams

Bfloat16 = npt.NDArray[np.uint16]
"""The upper halves of float32 numbers."""


@dataclass(frozen=True, slots=True)
class Ask:
    """What a text needs next.

    append: tokens to put in. max_tokens: most tokens to choose after them; 0 = none. stop_ids: a token that
        ends the choosing (it is kept). answer: whether what is chosen is an answer of the model.
    """

    append: Int32
    params: SamplingParams = field(default_factory=SamplingParams)
    max_tokens: int = 0
    stop_ids: tuple[int, ...] = ()
    answer: bool = False


Writing = Generator[Ask, Int32, None]


@dataclass(frozen=True, slots=True)
class Text:
    """A finished text.

    token_ids: int32[n]. answer: bool[n], which tokens the model chose as parts of an answer.
    hidden: bfloat16[n, layers, width]; the last token's are missing where it was never read (n - 1 rows).
    """

    token_ids: Int32
    answer: npt.NDArray[np.bool_]
    hidden: Bfloat16


def write(engine: Engine, writings: Iterable[Writing], layers: tuple[int, ...], slots: int) -> Iterator[Text]:
    """Run `slots` writings at a time until there are no more; texts in the order in which they end."""
    waiting = iter(writings)
    running: list[_Slot] = []
    while True:
        while len(running) < slots and (writing := next(waiting, None)) is not None:
            slot = _Slot(engine, writing, layers)
            if not slot.done:
                running.append(slot)
        if not running:
            return
        for slot, output in zip(running, engine.forward([slot.rows() for slot in running]), strict=True):
            slot.take(output)
        for slot in running:
            if slot.done:
                yield slot.text()
        running = [slot for slot in running if not slot.done]


class _Slot:
    """One running text."""

    def __init__(self, engine: Engine, writing: Writing, layers: tuple[int, ...]) -> None:
        self._writing, self._layers = writing, layers
        self._sequence: SequenceState = engine.new_sequence()
        self._room = engine.info.context_length
        self._tokens: list[int] = []
        self._answer: list[bool] = []
        self._hidden: list[Bfloat16] = []
        self._ask: Ask | None = None
        self._num_chosen = 0
        self._next(None)

    @property
    def done(self) -> bool:
        return self._ask is None

    def rows(self) -> Rows:
        """What the cache lacks, choosing after the last of it."""
        tokens = np.array(self._tokens, np.int32)
        ask = self._ask
        choice = (
            Choice(ask.params, tokens, len(tokens) - self._num_chosen) if ask and ask.max_tokens else None
        )
        return Rows(self._sequence, tokens[self._sequence.length :], choice=choice, want_hidden=self._layers)

    def take(self, output: PassOutput) -> None:
        hidden = output.hidden or {}
        self._hidden.append(to_bfloat16(np.stack([hidden[layer] for layer in self._layers], axis=1)))
        ask = self._ask
        if ask is None or ask.max_tokens == 0:
            self._next(np.empty(0, np.int32))
            return
        token = int(output.chosen[-1])
        self._tokens.append(token)
        self._answer.append(ask.answer)
        self._num_chosen += 1
        full = self._num_chosen == ask.max_tokens or len(self._tokens) == self._room
        if full or token in ask.stop_ids or _loops(self._tokens[-self._num_chosen :]):
            self._next(np.array(self._tokens[-self._num_chosen :], np.int32))

    def text(self) -> Text:
        return Text(np.array(self._tokens, np.int32), np.array(self._answer), np.concatenate(self._hidden))

    def _next(self, chosen: Int32 | None) -> None:
        """On to the next ask, or the end."""
        self._num_chosen = 0
        try:
            ask = next(self._writing) if chosen is None else self._writing.send(chosen)
        except StopIteration:
            ask = None
        if ask is None or len(self._tokens) + len(ask.append) + ask.max_tokens > self._room:
            self._ask = None
            self._sequence.close()
            return
        self._ask = ask
        self._tokens += ask.append.tolist()
        self._answer += [False] * len(ask.append)


def _loops(tokens: list[int]) -> bool:
    """Whether the text goes in circles: its last tokens are the same four times over, 24 of them or more.

    A small model at temperature 0 ends like that often enough to fill the data with it.
    """
    for period in range(1, 33):
        span = max(4 * period, 24)
        if len(tokens) >= span and tokens[-span:-period] == tokens[-span + period :]:
            return True
    return False


def to_bfloat16(values: npt.NDArray[np.float32]) -> Bfloat16:
    """Rounded to nearest, ties to even."""
    return quantize(values, GGMLType.BF16).view(np.uint16).reshape(values.shape)

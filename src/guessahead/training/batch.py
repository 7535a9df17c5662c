"""Generation of many texts at once through one engine, with the hidden states of all tokens.

Each text is written by a coroutine that yields `WritingRequest`s (append these tokens, then choose up to
max_tokens) and is sent the chosen tokens. Because rows are independent, each hidden state has the same bits
as if the text were generated alone.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np
import numpy.typing as npt

from guessahead.checkpoints.gguf.quantize import quantize
from guessahead.checkpoints.gguf.types import GGMLType
from guessahead.controller.base import FixedGamma
from guessahead.core.state import GenerationState, NoText
from guessahead.core.step import HiddenRecorder, Step
from guessahead.drafters import registry
from guessahead.drafters.base import DrafterResources
from guessahead.protocols import Engine
from guessahead.runners.base import turn
from guessahead.types import Chunk, Int32, Request, SamplingParams

Bfloat16 = npt.NDArray[np.uint16]
"""The upper halves of float32 numbers."""


@dataclass(frozen=True, slots=True)
class WritingRequest:
    """The next tokens of a text.

    append: tokens to append. max_tokens: maximum tokens to choose after them; 0 = none.
    stop_ids: tokens that end the choosing (they are kept).
    answer: whether the chosen tokens are an answer of the model.
    """

    append: Int32
    params: SamplingParams = field(default_factory=SamplingParams)
    max_tokens: int = 0
    stop_ids: tuple[int, ...] = ()
    answer: bool = False


Writing = Generator[WritingRequest, Int32, None]


@dataclass(frozen=True, slots=True)
class Text:
    """A finished text.

    token_ids: int32[n]. answer: bool[n], which tokens the model chose as parts of an answer.
    hidden: bfloat16[n, layers, width]; those of the last token are missing if it was not read (n - 1 rows).
    """

    token_ids: Int32
    answer: npt.NDArray[np.bool_]
    hidden: Bfloat16


def write(engine: Engine, writings: Iterable[Writing], layers: tuple[int, ...], slots: int) -> Iterator[Text]:
    """Run `slots` writings at a time until all are done; yields texts in the order in which they end."""
    waiting = iter(writings)
    running: list[_Slot] = []
    while True:
        while len(running) < slots and (writing := next(waiting, None)) is not None:
            slot = _Slot(engine, writing, layers)
            if not slot.done:
                running.append(slot)
        if not running:
            return
        chunks = turn(engine, [slot.step for slot in running if slot.step is not None], perf_counter)
        for slot, chunk in zip(running, chunks, strict=True):
            slot.take(chunk)
        for slot in running:
            if slot.done:
                yield slot.text()
        running = [slot for slot in running if not slot.done]


class _Slot:
    """One running text: a generation for each of its requests, all on one sequence."""

    def __init__(self, engine: Engine, writing: Writing, layers: tuple[int, ...]) -> None:
        self._info, self._writing = engine.info, writing
        self._sequence = engine.new_sequence()
        self._recorder, self._layers = HiddenRecorder(layers), layers
        self._policy = FixedGamma(registry.make("none", {}, DrafterResources(engine)), 0)
        self._tokens: list[int] = []
        self._answer: list[bool] = []
        self._request = WritingRequest(np.empty(0, np.int32))
        self._num_chosen = 0
        self.step: Step | None = None
        self._next(None)

    @property
    def done(self) -> bool:
        return self.step is None

    def take(self, chunk: Chunk) -> None:
        """Take the tokens that the last step chose."""
        request = self._request
        if request.max_tokens == 0:  # the tokens were only to be read
            self._next(np.empty(0, np.int32))
            return
        self._tokens += chunk.token_ids
        self._answer += [request.answer] * len(chunk.token_ids)
        self._num_chosen += len(chunk.token_ids)
        chosen = self._tokens[-self._num_chosen :]
        if self._state.finish_reason is not None or _loops(chosen):
            self._next(np.array(chosen, np.int32))

    def text(self) -> Text:
        states = [
            to_bfloat16(np.stack([each.layers[layer] for layer in self._layers], axis=1))
            for each in self._recorder.states
        ]
        return Text(np.array(self._tokens, np.int32), np.array(self._answer), np.concatenate(states))

    def _next(self, chosen: Int32 | None) -> None:
        """Continue with the next request, or end."""
        self._num_chosen = 0
        try:
            request = next(self._writing) if chosen is None else self._writing.send(chosen)
        except StopIteration:
            request = None
        wanted = 0 if request is None else len(request.append) + max(request.max_tokens, 1)
        if request is None or len(self._tokens) + wanted > self._info.context_length:
            self.step = None
            self._sequence.close()
            return
        self._request = request
        self._tokens += request.append.tolist()
        self._answer += [False] * len(request.append)
        wish = Request(np.array(self._tokens, np.int32), request.params, max(request.max_tokens, 1))
        self._state = GenerationState(wish, self._info, request.stop_ids, NoText(), "none")
        self.step = Step(self._state, self._sequence, self._recorder, self._policy)


def _loops(tokens: list[int]) -> bool:
    """Whether the text loops: its last tokens, 24 or more, are the same passage four times.

    A small model at temperature 0 loops often, which would fill the data with repetition.
    """
    for period in range(1, 33):
        span = max(4 * period, 24)
        if len(tokens) >= span and tokens[-span:-period] == tokens[-span + period :]:
            return True
    return False


def to_bfloat16(values: npt.NDArray[np.float32]) -> Bfloat16:
    """Rounded to nearest, ties to even."""
    return quantize(values, GGMLType.BF16).view(np.uint16).reshape(values.shape)

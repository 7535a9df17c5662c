"""What the invariant compares: everything a row yields, by the rows before it and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from guessahead.checkpoints.gguf import GGUFFile
from guessahead.engines.native import NativeEngine, NativeSequence
from guessahead.protocols import Engine, Rows, SequenceState
from guessahead.types import ChoiceContext, Float32, SamplingParams
from tests.support.tiny import TinyModel

GREEDY = SamplingParams()


def load(model: TinyModel, **settings: object) -> NativeEngine:
    with GGUFFile.open(model.path) as file:
        return NativeEngine.from_gguf(file, **settings)  # type: ignore[arg-type]


def greedy(tokens: Sequence[int]) -> ChoiceContext:
    return ChoiceContext(GREEDY, np.array(tokens, np.int32), len(tokens))


@dataclass(frozen=True)
class Truth:
    """One row at a time: after token i, the last hidden states and the logits, as bytes."""

    tokens: list[int]
    hidden: list[bytes]
    logits: list[bytes]
    sequence: SequenceState


def one_by_one(engine: Engine, tokens: Sequence[int], num_greedy: int = 0) -> Truth:
    """Feeds the tokens, then num_greedy of the model's own choices, in passes of a single row."""
    sequence = engine.new_sequence()
    truth = Truth(list(tokens), [], [], sequence)
    layers = tuple(range(engine.info.num_layers))
    for i in range(len(tokens) + num_greedy):
        rows = Rows(
            sequence,
            np.array(truth.tokens[i : i + 1], np.int32),
            context=greedy(truth.tokens[: i + 1]),
            want_logits="path",
            want_hidden=layers,
        )
        [output] = engine.forward([rows])
        assert output.hidden is not None
        assert output.logits is not None
        truth.hidden.append(hidden_of(output.hidden, 0))
        truth.logits.append(output.logits[0].tobytes())
        if i + 1 == len(truth.tokens) < len(tokens) + num_greedy:
            truth.tokens.append(int(output.chosen[0]))
    return truth


def hidden_of(hidden: dict[int, Float32], row: int) -> bytes:
    """The states of all captured layers of one row."""
    return b"".join(hidden[layer][row].tobytes() for layer in sorted(hidden))


def cache_of(engine: NativeEngine, sequence: SequenceState) -> bytes:
    """Keys and values of all layers and positions."""
    assert isinstance(sequence, NativeSequence)
    parts = [
        part.tobytes() for layer in range(engine.info.num_layers) for part in sequence.native.cached(layer)
    ]
    return b"".join(parts)

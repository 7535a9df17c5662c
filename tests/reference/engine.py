"""Logits of every position of a text from the engine, which gives only those of rows it chose for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from guessahead.checkpoints.gguf import GGUFFile
from guessahead.engines.native import NativeEngine
from guessahead.protocols import Engine, Rows, SequenceState
from guessahead.types import ChoiceContext, Float32, Int32, SamplingParams

NUM_TOGETHER = 32  # sequences per pass: as many as fit into a pass, with less memory than 64
MAX_ROWS = 64  # of a pass


def load(path: Path, activations: str, context: int) -> NativeEngine:
    with GGUFFile.open(path) as file:
        return NativeEngine.from_gguf(file, activations=activations, context=context)


def greedy(tokens: Int32) -> ChoiceContext:
    return ChoiceContext(SamplingParams(), tokens, len(tokens))


def all_logits(engine: Engine, tokens: Int32) -> Float32:
    """float32[positions, vocab]: the text goes in whole, then each token again on a copy cut there."""
    whole = engine.new_sequence()
    engine.forward([Rows(whole, tokens)])
    parts = []
    for begin in range(0, len(tokens), NUM_TOGETHER):
        parts += _last_logits(engine, whole, tokens, range(begin, min(begin + NUM_TOGETHER, len(tokens))))
    return np.stack(parts)


def _last_logits(engine: Engine, whole: SequenceState, tokens: Int32, positions: range) -> list[Float32]:
    """The logits after each of these positions, in one pass over copies of the sequence."""
    rows = []
    for position in positions:
        sequence = whole.fork()
        sequence.rollback(position)
        choice = greedy(tokens[: position + 1])
        rows.append(Rows(sequence, tokens[position : position + 1], context=choice, want_logits="path"))
    outputs = engine.forward(rows)
    for row in rows:
        row.sequence.close()
    return [output.logits[0] for output in outputs if output.logits is not None]


def one_by_one(engine: Engine, tokens: Int32) -> Float32:
    """The same by the plainest way: one token per pass."""
    sequence = engine.new_sequence()
    logits = []
    for i in range(len(tokens)):
        row = Rows(sequence, tokens[i : i + 1], context=greedy(tokens[: i + 1]), want_logits="path")
        output = engine.forward([row])[0].logits
        assert output is not None
        logits.append(output[0])
    return np.stack(logits)


def hidden_states(engine: Engine, tokens: Int32, chunk: int) -> Float32:
    """float32[layers, positions, width] of a text that goes in by chunks."""
    sequence, layers = engine.new_sequence(), tuple(range(engine.info.num_layers))
    parts = []
    for begin in range(0, len(tokens), chunk):
        rows = Rows(sequence, tokens[begin : begin + chunk], want_hidden=layers)
        hidden = engine.forward([rows])[0].hidden
        assert hidden is not None
        parts.append(np.stack([hidden[layer] for layer in layers]))
    return np.concatenate(parts, axis=1)


def short_texts(engine: Engine, texts: Int32) -> tuple[Float32, Float32]:
    """What every layer makes of short texts, and the logits after each.

    int32[texts, positions] -> float32[layers, texts, positions, width], float32[texts, vocab].
    """
    layers, together = tuple(range(engine.info.num_layers)), MAX_ROWS // texts.shape[1]
    states, logits = [], []
    for begin in range(0, len(texts), together):
        rows = [
            Rows(engine.new_sequence(), text, context=greedy(text), want_logits="path", want_hidden=layers)
            for text in texts[begin : begin + together]
        ]
        for output in engine.forward(rows):
            assert output.hidden is not None
            assert output.logits is not None
            states.append([output.hidden[layer] for layer in layers])
            logits.append(output.logits[texts.shape[1] - 1])
    return np.stack(states, axis=1), np.stack(logits)


def generate_together(engine: Engine, prompts: Sequence[Int32], num_tokens: int) -> list[Int32]:
    """Prompt and greedy continuation of each, all sequences in one pass per token; EOS ends nothing."""
    texts = [prompt.tolist() for prompt in prompts]
    sequences = [engine.new_sequence() for _ in texts]
    for _ in range(num_tokens):
        rows = []
        for text, sequence in zip(texts, sequences, strict=True):
            tokens = np.array(text, np.int32)
            rows.append(Rows(sequence, tokens[sequence.length :], context=greedy(tokens)))
        for text, output in zip(texts, engine.forward(rows), strict=True):
            text.append(int(output.chosen[-1]))
    return [np.array(text, np.int32) for text in texts]

"""A head's native passes compute what its torch module does, which is what was trained."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from guessahead.checkpoints.gguf import GGMLType, dequantize
from guessahead.engines.native.head import NativeHead
from guessahead.heads.files import MATRICES, HeadFiles
from guessahead.training.network import Head, Memory, Shape
from guessahead.types import Float32
from tests.conftest import Report
from tests.native.rows import load
from tests.support.tiny import NUM_TOKENS, tiny_gguf
from tests.support.tiny_head import tiny_head

pytestmark = pytest.mark.reference

NUM_ROWS, NUM_GUESSES = 70, 4
CLOSE = 5e-6  # of the largest value: float32, 4 guesses of which each rests on the one before


def torch_head(files: HeadFiles, embeddings: Float32) -> Head:
    """The module with the weights of a head's files."""
    c = files.config
    shape = Shape(
        width=c.width,
        ffn_width=c.ffn_width,
        num_heads=c.num_heads,
        num_kv_heads=c.num_kv_heads,
        head_dim=c.head_dim,
        num_layers=len(c.layers),
        vocab_size=c.vocab_size,
        norm_epsilon=c.norm_epsilon,
        rope_base=c.rope_base,
    )
    head = Head(shape, torch.from_numpy(embeddings))
    weights = dict(files.norms)
    for name in MATRICES:
        values = dequantize(files.matrices[name], GGMLType[c.formats[name]])
        weights[name] = values.reshape(c.shape(name))
    state = {f"{name}.weight": torch.from_numpy(values) for name, values in weights.items()}
    head.load_state_dict(state, strict=True)
    return head


@pytest.mark.parametrize("format", ["F32", "Q8_0"])
def test_native_passes_are_the_modules(tmp_path: Path, format: str, report: Report) -> None:
    """On the f32 route, for the guess behind what was read and for those behind guesses of its own."""
    model = tiny_gguf(tmp_path / "m.gguf", format="F32", formats={"token_embd": "BF16"})
    engine = load(model, threads=1, activations="f32")
    files = tiny_head(engine, format)
    assert engine.head_host is not None
    native = NativeHead(files, engine.head_host)
    module = torch_head(files, model.weights["token_embd.weight"])
    rng = np.random.default_rng(3)
    tokens = rng.integers(0, NUM_TOKENS, NUM_ROWS).astype(np.int32)
    fused = rng.standard_normal((NUM_ROWS, 2 * model.width)).astype(np.float32)

    expected = []  # per guess: states and logits of the rows
    with torch.inference_mode():
        memory = Memory(torch.ones(1, NUM_ROWS, NUM_ROWS, dtype=torch.bool))
        next_ids = torch.from_numpy(tokens.astype(np.int64))[None]
        state = module.fuse(torch.from_numpy(fused).reshape(1, NUM_ROWS, 2, -1))
        for _ in range(NUM_GUESSES):
            state = module.step(state, next_ids, memory)
            expected.append((state[0].numpy(), module.logits(state)[0].numpy()))
            state = state.roll(1, 1)

    sequence, worst = native.new_sequence(), 0.0
    for t in range(NUM_ROWS):
        entry, state, logits = sequence.read(tokens[t : t + 1], fused[t : t + 1])
        num = min(NUM_GUESSES, NUM_ROWS - t)
        given, found = [entry[0]], [(state[0], logits[0])]
        for guess in range(1, num):
            given.append(found[-1][0])
            parents = np.arange(-1, guess, dtype=np.int32)
            states, by_row = sequence.grow(tokens[t : t + guess + 1], np.stack(given), parents)
            found.append((states[guess], by_row[guess]))
        for guess, (ours, truth) in enumerate(zip(found, expected, strict=False)):
            for mine, theirs in zip(ours, truth, strict=True):
                worst = max(
                    worst, float(np.abs(mine - theirs[t + guess]).max() / np.abs(theirs[t + guess]).max())
                )
    report(f"{format}: largest difference {worst:.1e}")
    assert worst < CLOSE

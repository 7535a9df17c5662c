"""Rows of several sequences in one pass: short ones beside a long one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from guessahead import _native
from guessahead.protocols import Rows
from tests.native.rows import greedy, hidden_of, load, one_by_one
from tests.support.families import FAMILIES
from tests.support.tiny import tiny_gguf

PROMPT = [5, 9, 40, 77, 5, 9, 40, 200, 33]


@pytest.mark.slow
@pytest.mark.parametrize("isa", _native.isas())
@pytest.mark.parametrize("cache", ["f32", "f16"])
@pytest.mark.parametrize("family", FAMILIES)
def test_short_sequences_beside_a_long_one(tmp_path: Path, family: str, cache: str, isa: str) -> None:
    """The long one's attention runs in segments, of which the short ones have but the first."""
    model = tiny_gguf(tmp_path / "m.gguf", family, format="Q8_0", seed=3)
    engine = load(model, threads=2, cache=cache, isa=isa)
    truth = one_by_one(engine, PROMPT, 300)
    layers = tuple(range(engine.info.num_layers))
    starts, num = [280, 3, 63, 256, 9], 5
    requests = []
    for start in starts:
        sequence = engine.new_sequence()
        engine.forward([Rows(sequence, np.array(truth.tokens[:start], np.int32))])
        tokens = np.array(truth.tokens[start : start + num], np.int32)
        requests.append(
            Rows(sequence, tokens, None, greedy(truth.tokens[: start + num]), num - 1, "path", layers)
        )
    for start, output in zip(starts, engine.forward(requests), strict=True):
        assert output.hidden is not None
        assert output.logits is not None
        for row in range(num):
            assert hidden_of(output.hidden, row) == truth.hidden[start + row]
        assert output.logits[num - 1].tobytes() == truth.logits[start + num - 1]

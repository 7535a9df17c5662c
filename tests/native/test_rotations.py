"""Rotations for long contexts: the frequencies, and which set of them a model runs with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guessahead.checkpoints.gguf import GGUFFile, rotation
from guessahead.engines.native.architectures import ARCHITECTURES, SPECS
from guessahead.engines.native.checkpoint import Checkpoint
from guessahead.engines.native.engine import NativeEngine
from tests.native.rows import one_by_one
from tests.support import rotations
from tests.support.tiny import tiny_gguf


@pytest.mark.parametrize("rope_dim", [16, 64, 96, 128])
@pytest.mark.parametrize("base", [10_000.0, 1e6])
@pytest.mark.parametrize("original", [256, 4096, 32768])
@pytest.mark.parametrize("more", [{}, {"beta_fast": 8.0, "beta_slow": 2.0}])
def test_yarn(rope_dim: int, base: float, original: int, more: dict[str, float]) -> None:
    scaling = rotation.Scaling("yarn", 4.0, original, **more)
    found = rotation.yarn(rotation.rotation_frequencies(rope_dim, base), base, scaling)
    settings: dict[str, Any] = {
        "rope_type": "yarn",
        "rope_theta": base,
        "factor": 4.0,
        "original_max_position_embeddings": original,
        **more,
    }
    frequencies, factor = rotations.stretched(rope_dim, settings, 1)
    np.testing.assert_allclose(found.frequencies, frequencies, rtol=1e-12)
    assert found.gain == pytest.approx(factor**2, rel=1e-12)


def test_yarn_with_a_ramp_of_no_width() -> None:
    """Then there is a step, and no division by zero."""
    scaling = rotation.Scaling("yarn", 4.0, 4096, 8.0, 8.0)
    found = rotation.yarn([1.0, 0.5, 0.25, 0.125], 16.0, scaling).frequencies
    assert all(new in (old, old / 4) for new, old in zip(found, [1.0, 0.5, 0.25, 0.125], strict=True))


def test_the_attention_factor_of_longrope() -> None:
    assert rotation.longrope_attention_factor(1.0, 4096) == 1.0
    assert rotation.longrope_attention_factor(32.0, 4096) == pytest.approx(1.1902, abs=1e-4)  # Phi-3's


@pytest.mark.parametrize("old", [False, True], ids=["named", "without-its-name"])
def test_the_context_decides_between_short_and_long(tmp_path: Path, old: bool) -> None:
    """One set for all texts of a model as it is loaded."""
    model = tiny_gguf(tmp_path / "m.gguf", "longrope-long" if old else "longrope-short", format="F32")
    original = 2 if old else 1024
    with GGUFFile.open(model.path) as file:
        checkpoint = Checkpoint(file, tuple(ARCHITECTURES))
        assert checkpoint.context == model.context == 1024
        for context, name in ((original, "short_factor"), (original + 1, "long_factor")):
            checkpoint.context = context
            factors = rotations.longrope_factors(name, model.head_dim)
            [found, *_] = (each.rotation for each in SPECS["phi3"](checkpoint).layers)
            plain = rotations.plain(model.head_dim, model.rope_base)
            np.testing.assert_allclose(found.frequencies, plain / factors, rtol=1e-12)
            assert found.gain == pytest.approx(1.25**2)


def test_another_context_is_another_model(tmp_path: Path) -> None:
    """Unless both contexts are on the same side of the first one."""
    path = tiny_gguf(tmp_path / "m.gguf", "longrope-long", format="F32").path
    logits = {}
    for context in (1024, 64, 2):
        with GGUFFile.open(path) as file:
            engine = NativeEngine.from_gguf(file, threads=1, context=context)
        logits[context] = one_by_one(engine, [5, 9]).logits
    assert logits[1024] == logits[64] != logits[2]

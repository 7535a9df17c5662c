"""The rotation of a config.json, in all places and spellings, is what transformers makes of it."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guessahead.checkpoints.folders.config import FolderConfig
from guessahead.checkpoints.gguf.rotation import Scaling, linear, rotation_frequencies, yarn
from guessahead.errors import ModelError

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.reference

from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding  # noqa: E402

ABSENT = object()
HEAD_DIM = 16
BASE: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 2048,
}
LLAMA3 = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 256,
}
OBJECTS: tuple[Any, ...] = (
    ABSENT,
    None,
    {},
    {"rope_theta": 5e5},
    {"rope_type": "default", "rope_theta": 5e5},
    {"rope_type": "default", "rope_theta": None},
    {"type": "default"},
    {"rope_type": None, "type": "linear", "factor": 2.0},
    {"rope_type": "linear", "type": "yarn", "factor": 2.0},
    {"type": "linear", "factor": 4.0},
    {"type": "linear"},
    {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e6, "extra": 1},
    {"type": "yarn", "factor": 4.0},
    {"type": "yarn", "factor": None, "original_max_position_embeddings": 512},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512, "rope_theta": 1e6},
    {"rope_type": "yarn", "factor": 4.0, "beta_fast": 16, "beta_slow": 2, "attention_factor": 1.25},
    {"rope_type": "yarn", "factor": 4.0, "beta_fast": None, "mscale": 1.0, "mscale_all_dim": 0.5},
    {"rope_type": "yarn", "factor": 4.0, "mscale": 0.7},
    {"rope_type": "yarn", "factor": 0.5},
    {"rope_type": "yarn", "factor": 4.0, "truncate": True},
    {"rope_type": "llama3", **LLAMA3},
    {"rope_type": "llama3", **LLAMA3, "rope_theta": 5e5},
    {"type": "llama3", **{key: LLAMA3[key] for key in LLAMA3 if not key.startswith("orig")}},
    {"full_attention": {"rope_type": "default", "rope_theta": 5e5}},
)
THETAS: tuple[Any, ...] = (ABSENT, None, 2e4)
ORIGINALS: tuple[Any, ...] = (ABSENT, 128)


def cases() -> Iterator[dict[str, Any]]:
    combined = itertools.product(OBJECTS, OBJECTS, THETAS, ORIGINALS)
    for i, values in enumerate(combined):
        if i % 2 and ABSENT not in values[:2]:  # half of the rarest ones
            continue
        keys = ("rope_parameters", "rope_scaling", "rope_theta", "original_max_position_embeddings")
        yield {key: value for key, value in zip(keys, values, strict=True) if value is not ABSENT}


def theirs(rope: dict[str, Any]) -> tuple[np.ndarray, float] | None:
    """Frequencies and the factor of cosines; None: transformers fails."""
    try:
        copied = {key: dict(value) if isinstance(value, dict) else value for key, value in rope.items()}
        rotary = LlamaRotaryEmbedding(transformers.LlamaConfig(**BASE, **copied))
        return rotary.inv_freq.numpy().astype(float), float(rotary.attention_scaling)
    except Exception:
        return None


def ours(rope: dict[str, Any]) -> tuple[np.ndarray, float]:
    config = FolderConfig(Path("x"), {**BASE, "architectures": ["LlamaForCausalLM"], **rope})
    known = {key.removeprefix("llama."): value for key, value in config.metadata.items()}
    base, kind = known["rope.freq_base"], known.get("rope.scaling.type", "none")
    frequencies = rotation_frequencies(HEAD_DIM, base)
    if kind == "none":
        divisors = config.rope_divisors()
        return np.array(frequencies) / (1.0 if divisors is None else divisors), 1.0
    factor = known["rope.scaling.factor"]
    if kind == "linear":
        return np.array(linear(frequencies, factor).frequencies), 1.0
    scaling = Scaling(
        kind,
        factor,
        known["rope.scaling.original_context_length"],
        known["rope.scaling.yarn_beta_fast"],
        known["rope.scaling.yarn_beta_slow"],
        known.get("rope.scaling.attn_factor", 1.0),
    )
    rotation = yarn(frequencies, base, scaling)
    return np.array(rotation.frequencies), rotation.gain**0.5


@pytest.mark.filterwarnings("ignore")
def test_the_same_rotation_as_transformers() -> None:
    transformers.logging.set_verbosity_error()
    num_equal = num_refused = 0
    for rope in cases():
        expected = theirs(rope)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if expected is None:
                with pytest.raises(ModelError):
                    ours(rope)
                num_refused += 1
                continue
            found = ours(rope)
        np.testing.assert_allclose(found[0], expected[0], rtol=2e-5, err_msg=str(rope))
        assert found[1] == pytest.approx(expected[1], rel=1e-6), rope
        num_equal += 1
    assert num_equal > 1000
    assert num_refused > 50

"""What the native engine cannot run is refused at load, with the reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guessahead import _native
from guessahead.checkpoints.gguf import GGMLType, GGUFFile, NewTensor, write_gguf
from guessahead.engines.native import NativeEngine
from guessahead.errors import ModelError
from tests.support.tiny import tiny_gguf


def zeros(name: str, kind: GGMLType, shape: tuple[int, ...]) -> NewTensor:
    num_bytes = kind.row_bytes(shape[-1]) * int(np.prod(shape[:-1]))
    return NewTensor(name, kind, shape, lambda: (np.zeros(num_bytes, np.uint8),))


SCALING = "llama.rope.scaling"
YARN: dict[str, Any] = {
    f"{SCALING}.type": "yarn",
    f"{SCALING}.factor": 4.0,
    f"{SCALING}.original_context_length": 256,
}
LONGROPE: dict[str, Any] = {f"{SCALING}.type": "longrope", f"{SCALING}.original_context_length": 256}
CASES: list[tuple[str, dict[str, Any], NewTensor | None, str]] = [
    ("mixture", {"general.architecture": "qwen3moe"}, None, "'qwen3moe' models are mixtures of experts"),
    ("experts", {"llama.expert_count": 8}, None, "mixture-of-experts models are not supported"),
    ("recurrent", {"general.architecture": "mamba2"}, None, "'mamba2' models are recurrent"),
    ("unknown", {"general.architecture": "gpt2"}, None, "'gpt2' is not supported .only llama, .*smollm3"),
    ("dynamic", {"llama.rope.scaling.type": "dynamic"}, None, "scaled by 'dynamic' are not supported"),
    ("scaling", {"llama.rope.scaling.type": ["yarn"]}, None, "scaled by .'yarn'. are not supported"),
    ("yarn", YARN | {f"{SCALING}.original_context_length": 1}, None, "length' is 1; expected 2"),
    ("yarn-factor", YARN | {f"{SCALING}.factor": -1.0}, None, "scaling.factor' is -1.0; expected 0"),
    ("yarn-again", YARN | {f"{SCALING}.yarn_log_multiplier": 0.1}, None, "multiplier' is not supported"),
    (
        "yarn-other",
        {f"{SCALING}.attn_factor": 1.5},
        None,
        "attn_factor' is supported for 'longrope' and 'yarn' only",
    ),
    ("yarn-part", YARN | {"llama.rope.dimension_count": 32}, None, "'yarn' .* for a part of each head"),
    ("base", {"llama.rope.freq_base": 1.0}, None, "freq_base' is 1.0; expected 2"),
    ("sizes", {"llama.feed_forward_length": 1 << 20}, None, "'blk.0.ffn_down.weight' has shape .256, 512."),
    ("scaling-array", {"llama.rope.scaling.type": np.zeros(2, np.int8)}, None, "scaled by array"),
    ("window", {"llama.attention.sliding_window": -1}, None, "sliding_window' is -1; expected 0"),
    ("longrope", {}, zeros("rope_factors_long.weight", GGMLType.F32, (32,)), "context_length' is missing"),
    ("longrope-1", LONGROPE | {f"{SCALING}.original_context_length": 1}, None, "is 1; expected 2"),
    ("longrope-none", LONGROPE, None, "'rope_factors_short.weight' is missing"),
    (
        "longrope-factors",
        LONGROPE,
        zeros("rope_factors_short.weight", GGMLType.F32, (32,)),
        "'rope_factors_short.weight' holds factors that are not positive numbers",
    ),
    ("factors", {}, zeros("rope_freqs.weight", GGMLType.F32, (32,)), "factors that are not positive numbers"),
    (
        "unused",
        {},
        zeros("blk.0.ffn_up.bias", GGMLType.F32, (512,)),
        "ffn_up.bias' is not supported for",
    ),
    *(
        (
            f"format-{kind.name}",
            {},
            zeros("blk.0.ffn_up.weight", kind, (512, 256)),
            f"'blk.0.ffn_up.weight' is {kind.name}; supported are .*Q4_0",
        )
        for kind in GGMLType
        if kind.name not in _native.FORMATS
    ),
]


@pytest.mark.parametrize(("name", "metadata", "tensor", "reason"), CASES, ids=[case[0] for case in CASES])
def test_refused_with_the_reason(
    tmp_path: Path, name: str, metadata: dict[str, Any], tensor: NewTensor | None, reason: str
) -> None:
    model = tiny_gguf(tmp_path / "tiny.gguf", width=256, format="F16")
    path = tmp_path / f"{name}.gguf"
    with GGUFFile.open(model.path) as file:
        tensors = [
            NewTensor(each.name, each.type, tuple(each.shape), lambda each=each: (each.data,))
            for each in file.tensors.values()
            if tensor is None or each.name != tensor.name
        ]
        keys = {key: value for key, value in (file.metadata | metadata).items() if value is not None}
        write_gguf(path, keys, [*tensors, *([tensor] if tensor else [])])
    with GGUFFile.open(path) as file, pytest.raises(ModelError, match=reason):
        NativeEngine.from_gguf(file)
    with GGUFFile.open(model.path) as file:  # as it was, it loads
        NativeEngine.from_gguf(file)

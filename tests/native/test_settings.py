"""Settings of a GGUF file: each that changes what is computed is used or refused by its name."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guessahead import load
from guessahead.checkpoints.gguf import GGMLType, GGUFFile, NewTensor, dequantize, write_gguf
from guessahead.errors import ModelError, ModelWarning
from tests.support.tiny import tiny_gguf


def changed(folder: Path, arch: str = "llama", vectors: GGMLType = GGMLType.F32, **metadata: Any) -> Path:
    """A tiny model with other metadata, and vectors of another type; None takes a key away."""
    path = folder / "tiny.gguf"
    if not path.exists():
        tiny_gguf(path, arch, format="F32")
    with GGUFFile.open(path) as file:
        tensors = [
            NewTensor.of(
                t.name,
                dequantize(t.data, t.type).reshape(t.shape),
                vectors if len(t.shape) == 1 else t.type,
            )
            for t in file.tensors.values()
        ]
        values = {key: value for key, value in (dict(file.metadata) | metadata).items() if value is not None}
    write_gguf(folder / "changed.gguf", values, tensors)
    return folder / "changed.gguf"


def ids(path: Path) -> tuple[int, ...]:
    prompt = "the quick brown fox jumps over the lazy dog"
    return load(path, threads=1).generate(prompt, max_tokens=12, raw=True).token_ids


def refused(path: Path, words: str) -> None:
    with pytest.raises(ModelError, match=words) as caught:
        load(path, threads=1)
    assert "\n" not in str(caught.value)


CHANGING: dict[str, Any] = {
    "attention.causal": False,
    "attention.scale": 0.5,
    "attention.max_alibi_bias": 8.0,
    "attention.clamp_kqv": 8.0,
    "attention.value_length": 32,
    "attention.key_length_swa": 32,
    "attention.sliding_window_pattern": 4,
    "attention.shared_kv_layers": 2,
    "attention.temperature_scale": 0.1,
    "attention.temperature_length": 8192,
    "attention.output_scale": 0.5,
    "attention.q_lora_rank": 16,
    "attention.something_new": 1,
    "attn_logit_softcapping": 50.0,
    "final_logit_softcapping": 30.0,
    "logit_scale": 0.0625,
    "embedding_scale": 12.0,
    "residual_scale": 0.22,
    "use_parallel_residual": True,
    "expert_used_count": 2,
    "expert_shared_count": 1,
    "leading_dense_block_count": 1,
    "nextn_predict_layers": 1,
    "rope.dimension_count_swa": 8,
    "rope.dimension_sections": np.array([16, 24, 24, 0], np.int32),
    "rope.freq_base_swa": 10000.0,
    "rope.something_new": 1,
    "ssm.state_size": 16,
    "swiglu_clamp_exp": 7.0,
    "tensor_data_layout": "other",
}


@pytest.mark.parametrize("key", CHANGING)
def test_a_setting_that_changes_what_is_computed(tmp_path: Path, key: str) -> None:
    name = f"llama.{key}"
    refused(changed(tmp_path, **{name: CHANGING[key]}), f"metadata '{name}' .* is not supported for")


@pytest.mark.parametrize("kind", ["adapter", "mmproj", "imatrix", "vocab"])
def test_a_file_that_holds_no_model(tmp_path: Path, kind: str) -> None:
    refused(
        changed(tmp_path, **{"general.type": kind}),
        f"general.type is '{kind}': the file does not contain a complete model",
    )


def test_metadata_of_adapters(tmp_path: Path) -> None:
    refused(changed(tmp_path, **{"adapter.lora.alpha": 16.0}), "'adapter.lora.alpha' is not supported")


@pytest.mark.parametrize("arch", ["olmo2", "smollm3"])
def test_windows_of_architectures_without(tmp_path: Path, arch: str) -> None:
    key = f"{arch}.attention.sliding_window"
    refused(changed(tmp_path, arch, **{key: 64}), f"'{key}' is not supported")


def test_what_converters_add(tmp_path: Path) -> None:
    expected = ids(changed(tmp_path))
    with GGUFFile.open(tmp_path / "tiny.gguf") as file:
        width = file.metadata["llama.embedding_length"] // file.metadata["llama.attention.head_count"]
    neutral = {
        "general.type": "model",
        "general.quantized_by": "x",
        "quantize.imatrix.entries_count": 4,
        "llama.attention.causal": True,
        "llama.attention.layer_norm_epsilon": 0.1,
        "llama.attention.scale": float(np.float32(width**-0.5)),
        "llama.attention.value_length": width,
        "llama.attn_logit_softcapping": 0.0,
        "llama.expert_count": 0,
        "llama.expert_used_count": 0,
        "llama.logit_scale": 1.0,
        "llama.rope.dimension_count_swa": width,
        "llama.rope.dimension_sections": np.zeros(4, np.int32),
        "llama.rope.scaling.finetuned": False,
        "llama.rope.scaling.original_context_length": 64,
        "llama.tensor_data_layout": "Meta AI original pth",
        "llama.use_parallel_residual": False,
        "llama.vocab_size": 5,
        "tokenizer.ggml.padding_token_id": 1 << 30,
        "tokenizer.ggml.unknown_token_id": 1 << 30,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ids(changed(tmp_path, **neutral)) == expected


def test_unknown_settings_are_one_warning(tmp_path: Path) -> None:
    expected = ids(changed(tmp_path))
    path = changed(tmp_path, **{"llama.fancy": 1, "llama.new.thing": "x"})
    with pytest.warns(ModelWarning, match=r"no such metadata: 'llama.fancy', 'llama.new.thing'") as found:
        assert ids(path) == expected
    assert len(found) == 1


def test_factors_of_the_rotation_as_llama_cpp_reads_them(tmp_path: Path) -> None:
    """Without a type, scaling is linear; the key of 2023 counts where the newer one is absent; 0 is none."""
    scaling = "llama.rope.scaling."
    plain = ids(changed(tmp_path))
    half = ids(changed(tmp_path, **{scaling + "type": "linear", scaling + "factor": 2.0}))
    assert half != plain
    assert ids(changed(tmp_path, **{scaling + "factor": 2.0})) == half
    assert ids(changed(tmp_path, **{"llama.rope.scale_linear": 2.0})) == half
    assert ids(changed(tmp_path, **{"llama.rope.scale_linear": 3.0, scaling + "factor": 2.0})) == half
    assert ids(changed(tmp_path, **{scaling + "type": "none", scaling + "factor": 2.0})) == plain
    assert ids(changed(tmp_path, **{scaling + "factor": 0.0})) == plain


def test_yarn_as_llama_cpp_reads_it(tmp_path: Path) -> None:
    """No factor is 1, no first context is the context; attn_factor comes on top; the length is stretched."""
    scaling = "llama.rope.scaling."
    yarn = {scaling + "type": "yarn", scaling + "factor": 4.0}
    whole = changed(tmp_path)
    length = load(whole, threads=1).info.context_length
    first = ids(changed(tmp_path, **yarn))
    assert load(tmp_path / "changed.gguf", threads=1).info.context_length == 4 * length
    assert ids(changed(tmp_path, **yarn, **{scaling + "original_context_length": length})) == first
    assert ids(changed(tmp_path, **yarn, **{scaling + "attn_factor": 1.0})) == first
    assert ids(changed(tmp_path, **yarn, **{scaling + "attn_factor": 2.0})) != first
    assert ids(changed(tmp_path, **{scaling + "type": "yarn"})) == ids(changed(tmp_path))


@pytest.mark.parametrize("kind", [GGMLType.F16, GGMLType.BF16])
def test_norms_in_half_precision(tmp_path: Path, kind: GGMLType) -> None:
    """They are what the same values are in F32."""
    halves = changed(tmp_path, vectors=kind)
    found = ids(halves)
    halves.rename(tmp_path / "tiny.gguf")
    assert ids(changed(tmp_path)) == found
    with GGUFFile.open(tmp_path / "changed.gguf") as file:
        assert file.tensors["output_norm.weight"].type is GGMLType.F32

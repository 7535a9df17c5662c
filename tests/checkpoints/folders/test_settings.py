"""Settings of config.json: each that changes what is computed is used or refused by its name."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

from guessahead import load
from guessahead.checkpoints.folders.config import FolderConfig
from guessahead.checkpoints.folders.settings import FAMILIES
from guessahead.errors import ModelError, ModelWarning
from tests.checkpoints.folders.making import write_folder
from tests.support.tiny import tiny_gguf

SMALL: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 1024,
}
MISTRAL = {"architectures": ["MistralForCausalLM"]}
QWEN2 = {"architectures": ["Qwen2ForCausalLM"]}


def read(**changes: Any) -> dict[str, Any]:
    """The numbers that are made of a configuration, without the architecture's name."""
    found = FolderConfig(Path("config.json"), SMALL | changes).metadata
    return {key.partition(".")[2]: value for key, value in found.items()}


def refused(words: str, **changes: Any) -> None:
    with pytest.raises(ModelError, match=words) as caught:
        read(**changes)
    assert "\n" not in str(caught.value)


CHANGING: dict[str, Any] = {
    "add_cross_attention": True,
    "alibi": True,
    "attention_bias": True,
    "attention_chunk_size": 8192,
    "attention_multiplier": 0.015,
    "attn_logit_softcapping": 50.0,
    "attn_temperature_tuning": True,
    "clip_qkv": 8.0,
    "embedding_multiplier": 12.0,
    "final_logit_softcapping": 30.0,
    "hidden_act": "gelu",
    "is_causal": False,
    "is_encoder_decoder": True,
    "logit_scale": 0.0625,
    "logits_scaling": 8.0,
    "mlp_bias": True,
    "no_rope_layers": [1, 1, 0, 1],
    "num_experts": 8,
    "num_local_experts": 8,
    "partial_rotary_factor": 0.5,
    "per_layer_config": {"0": {"head_dim": 8}},
    "qk_layernorm": True,
    "query_pre_attn_scalar": 256,
    "residual_multiplier": 0.22,
    "rope_interleaved": True,
    "scale_emb": 12,
    "sliding_window": 4096,
    "use_bidirectional_attention": True,
    "use_mrope": True,
    "use_qk_norm": True,
}


@pytest.mark.parametrize("key", CHANGING)
def test_a_setting_that_changes_what_is_computed(key: str) -> None:
    refused(f"{key} .* is not supported", **{key: CHANGING[key]})


@pytest.mark.parametrize("key", ["quantization_config", "compression_config"])
def test_quantised_folders(key: str) -> None:
    method = {"quant_method": "gptq", "bits": 4}
    refused(f"{key}: the weights are quantised by 'gptq', .*use the original folder", **{key: method})
    refused("quantised by 'an unnamed method'", **{key: {"bits": 4}})


def test_what_trainers_and_converters_add() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read() == read(
            _name_or_path="x",
            torch_dtype="bfloat16",
            transformers_version="4.1",
            unsloth_fixed=True,
            unsloth_version="2026",
            use_cache=False,
            pad_token_id=1 << 40,
            attention_dropout=0.1,
            pretraining_tp=2,
            initializer_range=0.02,
            auto_map={"AutoModel": "x"},
            quantization_config=None,
            sliding_window=None,
            temperature=0.7,
            hidden_act="swish",
            partial_rotary_factor=1.0,
            num_experts=0,
            rope_interleaved=False,
        )


def test_unknown_settings_are_one_warning() -> None:
    with pytest.warns(
        ModelWarning, match="LlamaForCausalLM has no such setting: 'fancy', 'new.*scaling.foo'"
    ) as found:
        changed = read(fancy=1, new_thing={"a": 1}, rope_scaling={"type": "linear", "factor": 2.0, "foo": 3})
    assert len(found) == 1
    assert changed["rope.scaling.factor"] == 2.0


def test_the_window_of_mistral() -> None:
    key = "attention.sliding_window"
    assert read(**MISTRAL)[key] == 4096
    assert read(**MISTRAL, sliding_window=77)[key] == 77
    assert key not in read(**MISTRAL, sliding_window=None)
    assert key not in read()
    with pytest.warns(ModelWarning, match="'use_sliding_window'"):  # Qwen's, which Mistral does not have
        assert read(**MISTRAL, sliding_window=77, use_sliding_window=False)[key] == 77
    refused("sliding_window is missing or not a positive", **MISTRAL, sliding_window=0)


def test_the_window_of_qwen2() -> None:
    key = "attention.sliding_window"
    assert key not in read(**QWEN2, sliding_window=77)
    assert key not in read(**QWEN2, sliding_window=77, use_sliding_window=False)
    on = {**QWEN2, "sliding_window": 77, "use_sliding_window": True}
    assert key not in read(**on)  # from layer 28 on
    assert key not in read(**on, max_window_layers=4)
    assert read(**on, max_window_layers=0)[key] == 77
    assert read(**on, layer_types=["sliding_attention"] * 4)[key] == 77
    assert key not in read(**on, max_window_layers=0, layer_types=["full_attention"] * 4)
    refused("layer_types .* is not supported .all layers must be alike", **on, max_window_layers=2)
    refused("there is no sliding_window", **QWEN2, layer_types=["sliding_attention"] * 4)
    refused("layer_types", **on, layer_types=["full_attention"] * 3)
    refused("layer_types", **on, layer_types="full")


def test_layer_types_of_families_without() -> None:
    assert read(layer_types=["full_attention"] * 4) == read()
    refused("layer_types", layer_types=["full_attention", "sliding_attention"] * 2)


def test_a_window_is_used(tmp_path: Path) -> None:
    """The same weights see less of a long prompt."""
    tiny = tiny_gguf(tmp_path / "tiny.gguf", format="F32")
    prompt = "one two three four five six seven eight nine ten " * 4
    texts = {}
    for window in (8, None):
        folder = write_folder(tmp_path / str(window), tiny, **MISTRAL)
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | {"sliding_window": window}))
        texts[window] = load(folder, threads=1).generate(prompt, max_tokens=16, raw=True).token_ids
    assert (
        texts[8]
        != texts[None]
        == load(tiny.path, threads=1).generate(prompt, max_tokens=16, raw=True).token_ids
    )


@pytest.mark.parametrize(
    ("changes", "length"),
    [
        ({}, 1024),
        ({"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}}, 4096),
        ({"rope_scaling": {"type": "yarn", "factor": 4.0}}, 4096),
        ({"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 256}}, 1024),
        ({"rope_scaling": {"type": "yarn", "factor": 1e6}}, 1 << 20),
        ({"rope_scaling": {"type": "linear", "factor": 2.5}}, 2560),
        (
            {
                "rope_scaling": {
                    "rope_type": "llama3",
                    "factor": 8.0,
                    "low_freq_factor": 1.0,
                    "high_freq_factor": 4.0,
                    "original_max_position_embeddings": 256,
                }
            },
            1024,
        ),
    ],
)
def test_longer_contexts(changes: dict[str, Any], length: int) -> None:
    assert read(**changes)["context_length"] == length


def test_a_longer_context_runs(tmp_path: Path) -> None:
    tiny = tiny_gguf(tmp_path / "tiny.gguf", format="F32")
    scaling = {"type": "yarn", "factor": 2.0, "original_max_position_embeddings": 32}
    folder = write_folder(tmp_path / "folder", tiny, max_position_embeddings=32, rope_scaling=scaling)
    lm = load(folder, threads=1)
    assert lm.info.context_length == 64
    assert len(lm.generate("one two", max_tokens=48, raw=True, min_tokens=48).token_ids) == 48


@pytest.mark.reference
@pytest.mark.parametrize("name", FAMILIES)
def test_default_configurations(name: str) -> None:
    """What transformers writes of a configuration without arguments, and what it makes of an empty file."""
    transformers = pytest.importorskip("transformers")
    config = getattr(transformers, name.replace("ForCausalLM", "Config"))()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        written = FolderConfig(
            Path("x"), json.loads(json.dumps(config.to_dict())) | {"architectures": [name]}
        )
        empty = FolderConfig(Path("x"), {"architectures": [name]})
    head_dim = {key: value for key, value in written.metadata.items() if key.endswith("key_length")}
    assert written.metadata == empty.metadata | head_dim
    known = {key.partition(".")[2]: value for key, value in written.metadata.items()}
    assert known["context_length"] == config.max_position_embeddings
    assert known["attention.head_count_kv"] == config.num_key_value_heads
    assert known["feed_forward_length"] == config.intermediate_size
    assert known.get("attention.sliding_window") == getattr(config, "sliding_window", None)
    assert written.tied == config.tie_word_embeddings

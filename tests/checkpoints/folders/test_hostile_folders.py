"""Folders that are damaged, lie, or hold what is not supported: one line each."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from guessahead import load
from guessahead.errors import InputError
from tests.checkpoints.folders.making import write_folder
from tests.support.rotations import LLAMA3, YARN
from tests.support.tiny import tiny_gguf

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "folder", tiny_gguf(tmp_path / "tiny.gguf", format="F32"))


def refused(folder: Path, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        load(folder, threads=1)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"architectures": ["MixtralForCausalLM"]}, "'MixtralForCausalLM' is not supported .only Llama"),
        ({"architectures": None}, "does not have exactly one architecture"),
        ({"rope_scaling": {"rope_type": "dynamic", "factor": 8.0}}, "scaled rotary embeddings"),
        ({"rope_scaling": {"rope_type": ["yarn"]}}, "scaled rotary embeddings"),
        ({"rope_scaling": YARN | {"truncate": False}}, "truncate False of rope_scaling is not supported"),
        ({"rope_scaling": YARN | {"factor": float("nan")}}, "factor of rope_scaling is missing"),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, "low_freq_factor of .* is missing"),
        ({"rope_parameters": LLAMA3 | {"high_freq_factor": 1.0}}, "scaled rotary embeddings"),
        ({"rope_parameters": LLAMA3 | {"partial_rotary_factor": 0.5}}, "a part of each head"),
        ({"rope_scaling": "x"}, "scaled rotary embeddings"),
        ({"sliding_window": 4096}, "sliding_window 4096 is not supported"),
        ({"hidden_act": "gelu"}, "hidden_act 'gelu' is not supported"),
        ({"attention_bias": True}, "attention_bias True is not supported"),
        ({"quantization_config": {"bits": 4}}, "quantization_config"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ({"num_hidden_layers": 0}, "num_hidden_layers is missing"),
        ({"num_hidden_layers": 3}, "blk.2.attn_q.weight' is missing"),
        ({"num_hidden_layers": 1 << 40}, "num_hidden_layers is missing or not a positive"),
        ({"hidden_size": "64"}, "hidden_size is missing or not a positive"),
        ({"hidden_size": 128}, "expected"),
        ({"num_attention_heads": 3}, "heads"),
        ({"rms_norm_eps": float("nan")}, "rms_norm_eps is not a positive number"),
        ({"rope_theta": -1}, "rope_theta is missing or not a positive number"),
        ({"tie_word_embeddings": "no"}, "tie_word_embeddings is neither"),
        ({"eos_token_id": "x"}, "eos_token_id is not an id"),
        ({"eos_token_id": 1 << 30}, "outside the vocabulary"),
    ],
)
def test_config(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    tiny = tiny_gguf(tmp_path / "tiny.gguf", format="F32")
    refused(write_folder(tmp_path / "folder", tiny, **changes), words)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("config.json", None, "folder without config.json"),
        ("config.json", b"{", "config.json: damaged JSON"),
        ("config.json", b"[" * 100_000, "config.json: damaged JSON"),
        ("config.json", b"[]", "config.json: damaged: it contains no JSON object"),
        ("config.json", b"\xff\xfe", "config.json: damaged JSON"),
        ("tokenizer.json", None, "tokenizer.json: cannot be read"),
        ("tokenizer.json", b"{}", "tokenizer.json: damaged, or of an unknown kind"),
        ("tokenizer_config.json", b'{"chat_template": 5}', "chat_template is not a text"),
        ("tokenizer_config.json", rb'{"bos_token": "\ud800"}', "tokenizer.json: damaged"),
        (WEIGHTS, None, "neither model.safetensors nor"),
        (WEIGHTS, b"", "only 0 bytes"),
        (WEIGHTS, struct.pack("<Q", 1 << 62) + b"{}", "header has 4611686018427387904 bytes"),
        (WEIGHTS, struct.pack("<Q", 3) + b"{}", "header has 3 bytes"),
        (WEIGHTS, struct.pack("<Q", 2) + b"[]", "contains no JSON object"),
        (WEIGHTS, struct.pack("<Q", 8) + b'{"a": 5}', "'a' lacks dtype"),
    ],
)
def test_files(folder: Path, name: str, content: bytes | None, words: str) -> None:
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_bytes(content)
    refused(folder, words)


def header(**record: Any) -> bytes:
    fields = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} | record
    text = json.dumps({"x": fields, "y": {"dtype": "F32", "shape": [1], "data_offsets": [8, 12]}}).encode()
    return struct.pack("<Q", len(text)) + text + bytes(12)


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"shape": [3]}, "8 bytes, which does not fit its shape"),
        ({"shape": [1 << 62, 1 << 62]}, "does not fit its shape"),
        ({"shape": [-1, -2]}, "not lists of whole numbers"),
        ({"shape": [1, 1, 1, 1, 2]}, "does not fit its shape"),
        ({"data_offsets": [0, 1 << 62]}, "incomplete download"),
        ({"data_offsets": [8, 0]}, "needs bytes 8 to 0"),
        ({"data_offsets": [0]}, "not lists of whole numbers"),
        ({"data_offsets": [4, 12]}, "overlap"),
        ({"dtype": []}, "dtype that is not a string"),
    ],
)
def test_headers(folder: Path, record: dict[str, Any], words: str) -> None:
    (folder / WEIGHTS).write_bytes(header(**record))
    refused(folder, words)


def change_weights(change: Callable[[dict[str, np.ndarray]], Any]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        weights = load_file(folder / WEIGHTS)
        change(weights)
        save_file(weights, folder / WEIGHTS)

    return apply


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (change_weights(lambda w: w.pop("lm_head.weight")), "'lm_head.weight' is missing"),
        (change_weights(lambda w: w.pop("model.norm.weight")), "'output_norm.weight' is missing"),
        (
            change_weights(
                lambda w: w.update({"model.layers.0.self_attn.q_proj.weight": np.zeros((6, 64), "f4")})
            ),
            "attn_q.weight' has shape",
        ),
        (
            change_weights(
                lambda w: w.update({"model.layers.0.mlp.up_proj.weight": np.zeros((4, 4, 4), "f4")})
            ),
            "ffn_up.weight' has shape",
        ),
        (
            change_weights(lambda w: w.update({"model.norm.weight": np.zeros(64, "f8")})),
            "'model.norm.weight' is F64, which is not supported",
        ),
    ],
)
def test_weights(folder: Path, change: Callable[[Path], None], words: str) -> None:
    change(folder)
    refused(folder, words)


@pytest.mark.parametrize(
    ("index", "words"),
    [
        ({}, "no weight_map"),
        ({"weight_map": {"a": 5}}, "no weight_map"),
        ({"weight_map": {"a": "../model.safetensors"}}, "not the name of a safetensors file"),
        ({"weight_map": {"a": "config.json"}}, "not the name of a safetensors file"),
        ({"weight_map": {"a": "b.safetensors"}}, "b.safetensors: cannot be read"),
        ({"weight_map": {"a": "x.safetensors"}}, "does not have 'a', which is listed there"),
    ],
)
def test_an_index_that_lies(folder: Path, index: dict[str, Any], words: str) -> None:
    (folder / WEIGHTS).rename(folder / "x.safetensors")
    (folder / INDEX).write_text(json.dumps(index))
    refused(folder, words)


def test_a_pipe_in_place_of_a_file(folder: Path) -> None:
    (folder / WEIGHTS).unlink()
    os.mkfifo(folder / WEIGHTS)
    refused(folder, "not a file")


def test_tokenizers_of_other_kinds(folder: Path) -> None:
    path = folder / "tokenizer.json"
    layout = json.loads(path.read_text())
    path.write_text(json.dumps(layout | {"decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True}}))
    refused(folder, "decoder is neither")
    path.write_text(json.dumps(layout | {"model": layout["model"] | {"continuing_subword_prefix": "##"}}))
    refused(folder, "continuing_subword_prefix '##' is not supported")
    path.write_text(
        json.dumps(layout | {"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}})
    )
    refused(folder, "'WordLevel' are not supported")

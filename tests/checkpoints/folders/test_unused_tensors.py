"""What lies in a folder's weights is used, or the folder is refused by the tensor's name."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from guessahead import load
from guessahead.errors import InputError
from tests.checkpoints.folders.making import write_folder
from tests.support.tiny import tiny_gguf

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
LAYER = "model.layers.0."


def folder_with(tmp_path: Path, arch: str = "llama", **tensors: np.ndarray) -> Path:
    """A folder with further tensors; "/" stands for "."."""
    folder = write_folder(tmp_path / "folder", tiny_gguf(tmp_path / "tiny.gguf", arch, format="F32"))
    added = {name.replace("/", "."): value for name, value in tensors.items()}
    save_file(load_file(folder / WEIGHTS) | added, folder / WEIGHTS)
    return folder


def refused(folder: Path, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        load(folder, threads=1)
    assert "\n" not in str(caught.value)


def ids(folder: Path) -> tuple[int, ...]:
    return load(folder, threads=1).generate("the quick brown fox", max_tokens=8, raw=True).token_ids


UNUSED = [
    LAYER + "self_attn.q_proj.lora_A.weight",
    LAYER + "self_attn.q_proj.lora_B.default.weight",
    LAYER + "self_attn.q_proj.base_layer.weight",
    LAYER + "self_attn.q_norm.weight",
    LAYER + "self_attn.k_norm.weight",
    LAYER + "self_attn.sinks",
    LAYER + "self_attn.o_proj.bias",
    LAYER + "self_attn.q_proj.bias",
    LAYER + "self_attn.q_proj.weight_scale",
    LAYER + "self_attn.rotary_emb.scale",
    LAYER + "mlp.down_proj.bias",
    LAYER + "mlp.gate.weight",
    LAYER + "mlp.experts.0.up_proj.weight",
    LAYER + "pre_feedforward_layernorm.weight",
    LAYER + "input_layernorm.bias",
    "model.layers.2.input_layernorm.weight",
    "model.layers.00.input_layernorm.weight",
    "model.layers.x.input_layernorm.weight",
    "model.embed_positions.weight",
    "model.norm.bias",
    "lm_head.bias",
    "model.vision_tower.weight",
    "score.weight",
    "weight",
]


@pytest.mark.parametrize("name", UNUSED)
def test_a_tensor_that_is_not_used(tmp_path: Path, name: str) -> None:
    folder = folder_with(tmp_path, **{name: np.zeros(4, np.float32)})
    refused(folder, f"the tensor '{name}' is not supported for")


def test_biases_that_the_family_does_not_have(tmp_path: Path) -> None:
    refused(
        folder_with(tmp_path, "qwen2", **{LAYER + "self_attn.o_proj.bias": np.zeros(64, np.float32)}),
        "o_proj.bias' is not supported for",
    )


def test_frequencies_of_older_files_are_computed_anyway(tmp_path: Path) -> None:
    folder = folder_with(tmp_path)
    expected = ids(folder)
    name = LAYER + "self_attn.rotary_emb.inv_freq"
    save_file(load_file(folder / WEIGHTS) | {name: np.zeros(4, np.int64)}, folder / WEIGHTS)
    assert ids(folder) == expected


@pytest.mark.parametrize("dtype", ["f8", "i8", "u1", "i1", "?"])
def test_types_that_are_not_known(tmp_path: Path, dtype: str) -> None:
    name = LAYER + "mlp.up_proj.weight"
    folder = folder_with(tmp_path)
    weights = load_file(folder / WEIGHTS)
    save_file(weights | {name: weights[name].astype(dtype)}, folder / WEIGHTS)
    refused(folder, f"the tensor '{name}' is .*, which is not supported .only F32, F16, BF16")


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_fp8(tmp_path: Path, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    from safetensors.torch import load_file as load_torch
    from safetensors.torch import save_file as save_torch

    folder, name = folder_with(tmp_path), LAYER + "mlp.up_proj.weight"
    weights = load_torch(folder / WEIGHTS)
    save_torch(weights | {name: weights[name].to(getattr(torch, dtype))}, folder / WEIGHTS)
    refused(folder, f"the tensor '{name}' is F8_E.M., which is not supported")


def test_an_adapter_in_the_folder(tmp_path: Path) -> None:
    folder = folder_with(tmp_path)
    (folder / "adapter_config.json").write_text("{}")
    refused(folder, r"adapter_config.json: an adapter .LoRA. in the folder is not supported; merge it")


def test_an_output_matrix_beside_tied_embeddings(tmp_path: Path) -> None:
    """As in transformers: equal ones are one; of different ones each is itself."""
    tiny = tiny_gguf(tmp_path / "tiny.gguf", format="F32")
    untied = write_folder(tmp_path / "untied", tiny)
    both = write_folder(tmp_path / "both", tiny, tie_word_embeddings=True)
    assert ids(both) == ids(untied)

    weights = load_file(both / WEIGHTS)
    equal = weights | {"lm_head.weight": weights["model.embed_tokens.weight"].copy()}
    save_file(equal, both / WEIGHTS)
    tied = ids(both)
    assert tied != ids(untied)
    for name in ("lm_head.weight", "model.embed_tokens.weight"):
        save_file({key: value for key, value in equal.items() if key != name}, both / WEIGHTS)
        assert ids(both) == tied


def test_a_stale_index_beside_a_complete_file(tmp_path: Path) -> None:
    folder = folder_with(tmp_path)
    expected = ids(folder)
    places = {"model.norm.weight": "model-00001-of-00002.safetensors"}
    (folder / INDEX).write_text(json.dumps({"weight_map": places}))
    assert ids(folder) == expected


def test_parts_without_an_index(tmp_path: Path) -> None:
    tiny = tiny_gguf(tmp_path / "tiny.gguf", format="F32")
    expected = ids(write_folder(tmp_path / "whole", tiny))
    folder = write_folder(tmp_path / "parts", tiny, shards=3)
    (folder / INDEX).unlink()
    assert ids(folder) == expected
    (folder / "model-00002-of-00003.safetensors").unlink()
    refused(folder, "a part of the weights is missing: model-00002-of-00003.safetensors .of 3 files")


def test_tensors_that_the_index_does_not_name(tmp_path: Path) -> None:
    """transformers reads whole files, so what else lies in them counts."""
    folder = write_folder(tmp_path / "folder", tiny_gguf(tmp_path / "tiny.gguf", format="F32"), shards=2)
    part = folder / "model-00002-of-00002.safetensors"
    own = load_file(part)
    save_file(own | {"extra.weight": np.zeros(4, np.float32)}, part)
    refused(folder, "the tensor 'extra.weight' is not supported for")
    first = load_file(folder / "model-00001-of-00002.safetensors")
    name = next(iter(first))
    save_file(own | {name: first[name]}, part)
    refused(folder, f"the tensor '{name}' is also in another file")


@pytest.mark.parametrize("name", [WEIGHTS, "tokenizer.json", "config.json"])
def test_a_pointer_in_place_of_a_file(tmp_path: Path, name: str) -> None:
    folder = folder_with(tmp_path)
    (folder / name).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n")
    refused(folder, f"{name}: only a Git LFS pointer, not the file itself; fetch it with `git lfs pull`")

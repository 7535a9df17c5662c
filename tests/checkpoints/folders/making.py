"""A model folder with the weights of a tiny GGUF file, written by the safetensors package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from safetensors.numpy import save_file
from tokenizers import decoders, models, pre_tokenizers

from guessahead.checkpoints.gguf import GGUFFile
from tests.support.tiny import CHAT_TEMPLATE, SPECIAL_TOKENS, TinyModel

ARCHITECTURES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM"}


def write_folder(
    folder: Path, model: TinyModel, *, shards: int = 1, dtype: str = "float32", **config: Any
) -> Path:
    """`model`, which must be of a type that keeps its values, as a folder. config: changes, None removes."""
    folder.mkdir()
    values = model.config() | {"architectures": [ARCHITECTURES[model.family.arch]], **config}
    values = {key: value for key, value in values.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(values))
    _write_weights(folder, model, shards, dtype)
    _write_tokenizer(folder, model)
    return folder


def _write_weights(folder: Path, model: TinyModel, shards: int, dtype: str) -> None:
    weights = {name: value.astype(dtype) for name, value in model.original_weights().items()}
    if model.tied:
        del weights["lm_head.weight"]
    if shards == 1:
        save_file(weights, folder / "model.safetensors")
        return
    names = list(weights)
    places = {}
    for shard in range(shards):
        file = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        own = names[shard::shards]
        save_file({name: np.ascontiguousarray(weights[name]) for name in own}, folder / file)
        places |= dict.fromkeys(own, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))


def _write_tokenizer(folder: Path, model: TinyModel) -> None:
    with GGUFFile.open(model.path) as file:
        metadata = file.metadata
    names = [name for name in metadata["tokenizer.ggml.tokens"] if not name.startswith("[PAD")]
    ids = {name: i for i, name in enumerate(names) if name not in SPECIAL_TOKENS}
    merges = [tuple(merge.split(" ")) for merge in metadata["tokenizer.ggml.merges"]]
    built = tokenizers.Tokenizer(models.BPE(vocab=ids, merges=merges))
    built.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    built.decoder = decoders.ByteLevel()
    for name in SPECIAL_TOKENS:
        special = name != "<|tool|>"
        built.add_tokens([tokenizers.AddedToken(name, special=special, normalized=False)])
    built.save(str(folder / "tokenizer.json"))
    settings = {
        "bos_token": "<|endoftext|>",
        "eos_token": {"content": "<|im_end|>"},
        "add_bos_token": False,
        "chat_template": CHAT_TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))

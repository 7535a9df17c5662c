"""A model folder gives the bits that the GGUF file of the same weights gives."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from guessahead import load
from guessahead.checkpoints.gguf import GGUFFile, NewTensor, dequantize, write_gguf
from guessahead.model import LanguageModel
from guessahead.protocols import Rows
from guessahead.types import ChoiceContext, Float32, SamplingParams
from tests.checkpoints.folders.making import ARCHITECTURES, write_folder
from tests.support.rewriting import rewrite
from tests.support.rotations import LLAMA3, YARN
from tests.support.tiny import TinyModel, tiny_gguf
from tests.text.odd_strings import CODE, PROSE, SPECIAL, WORDS


def logits(model: LanguageModel) -> np.ndarray:
    ids = np.arange(3, 200, 7, dtype=np.int32)
    rows = Rows(
        model.runner.engine.new_sequence(),
        ids,
        context=ChoiceContext(SamplingParams(), ids, len(ids), ()),
        want_logits="path",
    )
    output = model.runner.engine.forward([rows])[0]
    assert output.logits is not None
    return output.logits[len(ids) - 1]


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize(
    ("format", "dtype", "shards", "tied"),
    [("F32", "float32", 1, False), ("F16", "float16", 3, False), ("F32", "float32", 2, True)],
)
def test_same_bits_as_the_gguf_file(tmp_path: Path, arch, format, dtype, shards, tied) -> None:
    tiny = tiny_gguf(tmp_path / "tiny.gguf", arch, format=format, tied=tied)
    if dtype == "float16":  # vectors, too: both must hold the same values
        tiny = _vectors_as_f16(tmp_path, arch)
    folder = write_folder(tmp_path / "folder.v1", tiny, shards=shards, dtype=dtype, tie_word_embeddings=tied)
    one, other = load(tiny.path, threads=1), load(folder, threads=1)
    np.testing.assert_array_equal(logits(one).view(np.uint32), logits(other).view(np.uint32))
    prompt = "the quick brown fox"
    assert one.generate(prompt, max_tokens=24).token_ids == other.generate(prompt, max_tokens=24).token_ids
    assert other.name == other.runner.engine.info.name == "folder.v1"


@pytest.mark.parametrize("family", ["llama3", "yarn"])
@pytest.mark.parametrize("key", ["rope_scaling", "rope_parameters"])
def test_scaled_rotations(tmp_path: Path, family: str, key: str) -> None:
    """llama3's divisors are computed here, and stand in the GGUF file as its converter computed them."""
    tiny = tiny_gguf(tmp_path / "tiny.gguf", family, format="F32")
    settings = {"llama3": LLAMA3, "yarn": YARN}[family]
    if key == "rope_scaling":  # as older files have it
        settings = {"type" if name == "rope_type" else name: value for name, value in settings.items()}
    config = {"rope_parameters": None, "rope_theta": tiny.rope_base} | {key: settings}
    folder = write_folder(tmp_path / "folder", tiny, **config)
    one, other = logits(load(tiny.path, threads=1)), logits(load(folder, threads=1))
    np.testing.assert_allclose(one, other, atol=2e-5 * np.abs(one).max())
    if family == "yarn":
        np.testing.assert_array_equal(one.view(np.uint32), other.view(np.uint32))
    plain = write_folder(tmp_path / "plain", tiny, **config | {key: None})
    assert np.abs(logits(load(plain, threads=1)) - other).max() > 0.1


def test_linear_scaling(tmp_path: Path) -> None:
    """Everything at half its position."""
    tiny = tiny_gguf(tmp_path / "tiny.gguf", format="F32")
    folder = write_folder(tmp_path / "folder", tiny, rope_scaling={"type": "linear", "factor": 2.0})
    path = tmp_path / "linear.gguf"
    with GGUFFile.open(tiny.path) as file:
        tensors = [
            NewTensor.of(t.name, dequantize(t.data, t.type).reshape(t.shape), t.type)
            for t in file.tensors.values()
        ]
        scaling = {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 2.0}
        write_gguf(path, dict(file.metadata) | scaling, tensors)
    one, other = logits(load(path, threads=1)), logits(load(folder, threads=1))
    np.testing.assert_array_equal(one.view(np.uint32), other.view(np.uint32))


def _vectors_as_f16(tmp_path: Path, arch: str) -> TinyModel:
    """The tiny model with vectors that float16 can hold."""
    tiny = tiny_gguf(tmp_path / "whole.gguf", arch, format="F16")

    def halved(name: str, values: Float32) -> Float32:
        tiny.weights[name] = values.astype(np.float16).astype(np.float32)
        return tiny.weights[name]

    return replace(tiny, path=rewrite(tiny.path, tmp_path / "halves.gguf", halved))


def test_bfloat16(tmp_path: Path) -> None:
    """The numpy side of safetensors cannot write it, torch can."""
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    tiny = tiny_gguf(tmp_path / "tiny.gguf", format="BF16")
    folder = write_folder(tmp_path / "folder", tiny)
    weights = {name: torch.from_numpy(value.copy()) for name, value in tiny.original_weights().items()}
    as_bf16 = {name: v.to(torch.bfloat16) if v.ndim == 2 else v for name, v in weights.items()}
    save_file(as_bf16, folder / "model.safetensors")
    one, other = load(tiny.path, threads=1), load(folder, threads=1)
    np.testing.assert_array_equal(logits(one).view(np.uint32), logits(other).view(np.uint32))


def test_the_tokenizers_agree(tmp_path: Path) -> None:
    tiny = tiny_gguf(tmp_path / "tiny.gguf", format="F32")
    one, folder = load(tiny.path), write_folder(tmp_path / "folder", tiny)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": list(one.tokenizer.eos_ids)}))
    other = load(folder)
    mine, theirs = one.tokenizer, other.tokenizer
    assert (mine.eos_ids, mine.bos_id, mine.adds_bos) == (theirs.eos_ids, theirs.bos_id, theirs.adds_bos)
    for text in [*CODE, *PROSE, *SPECIAL, *WORDS, "<|im_start|>user\n<|tool|> x<|im_end|>", ""]:
        for special in (False, True):
            ids = theirs.encode(text, special=special)
            assert ids == mine.encode(text, special=special)
            assert theirs.decode(ids, skip_special=False) == text
    messages = [{"role": "user", "content": "Hi"}]
    assert one.chat_template.render(messages) == other.chat_template.render(messages)

"""The tiny models that other tests build on are what they say they are."""

from pathlib import Path

import numpy as np
import pytest

from guessahead.checkpoints.gguf import GGMLType, GGUFFile, dequantize
from tests.support import tiny


@pytest.mark.parametrize("arch", ["llama", "qwen2"])
@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
def test_weights_are_those_of_the_file(tmp_path: Path, arch: str, tied: bool) -> None:
    model = tiny.tiny_gguf(tmp_path / "tiny.gguf", arch, tied=tied, formats={"ffn_down": "Q5_0"})
    with GGUFFile.open(model.path) as file:
        assert set(file.tensors) == set(model.weights)
        assert ("output.weight" in file.tensors) is not tied
        assert ("blk.1.attn_k.bias" in file.tensors) is (arch == "qwen2")
        assert file.tensors["blk.0.ffn_down.weight"].type is GGMLType.Q5_0
        assert file.tensors["blk.0.ffn_up.weight"].type is GGMLType.Q4_1
        for name, tensor in file.tensors.items():
            values = dequantize(tensor.data, tensor.type).reshape(tensor.shape)
            np.testing.assert_array_equal(values, model.weights[name])
        assert len(file.metadata["tokenizer.ggml.tokens"]) == model.vocab


def test_same_seed_same_bytes(tmp_path: Path) -> None:
    first, again, other = (
        tiny.tiny_gguf(tmp_path / f"{index}.gguf", seed=seed).path.read_bytes()
        for index, seed in enumerate((1, 1, 2))
    )
    assert first == again
    assert first != other


def test_row_order_of_llama() -> None:
    """Two heads of dimension 6: the pairs (i, i + 3) of the original stand side by side in the file."""
    original = np.arange(12, dtype=np.float32)[:, None]
    in_file = tiny.to_gguf_rows(original, 2)
    assert in_file[:, 0].tolist() == [0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11]
    np.testing.assert_array_equal(tiny.to_original_rows(in_file, 2), original)


def test_the_tokenizer_is_consistent() -> None:
    metadata = tiny.tokenizer_metadata(400)
    tokens, merges = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.merges"]
    assert len(set(tokens)) == len(tokens) == len(metadata["tokenizer.ggml.token_type"]) == 400
    assert len(set(tiny.byte_alphabet())) == 256
    known = set(tiny.byte_alphabet())
    for merge in merges:
        left, right = merge.split(" ")
        assert {left, right} <= known
        known.add(left + right)
    assert known <= set(tokens)
    assert tokens[metadata["tokenizer.ggml.eos_token_id"]] == "<|im_end|>"


@pytest.mark.reference
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("arch", "format", "tied"), [("llama", "Q4_1", False), ("llama", "Q6_K", True), ("qwen2", "Q5_0", False)]
)
def test_transformers_reads_the_file_as_the_original_weights(
    tmp_path: Path, arch: str, format: str, tied: bool
) -> None:
    """Names, row order, biases and tying: a model from the file equals one from `original_weights`."""
    import torch
    import transformers

    model = tiny.tiny_gguf(tmp_path / "tiny.gguf", arch, format=format, tied=tied)
    config = {"llama": transformers.LlamaConfig, "qwen2": transformers.Qwen2Config}[arch](**model.config())
    original = transformers.AutoModelForCausalLM.from_config(config).eval()
    original.load_state_dict(
        {name: torch.from_numpy(values.copy()) for name, values in model.original_weights().items()}
    )
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file="tiny.gguf").eval()
    ids = torch.arange(3, 40)[None]
    with torch.no_grad():
        ours, theirs = original(ids).logits[0], loaded(ids).logits[0]
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-4)
    assert ours.std() > 10  # peaked
    assert len(set(ours.argmax(-1).tolist())) > 5  # and not all the same

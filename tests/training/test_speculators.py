"""A head in the layout that vLLM reads: names, shapes and numbers as its loader expects them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from guessahead.training.network import Head, Shape
from guessahead.training.speculators import write_speculators
from guessahead.training.target import Target
from tests.support.tiny import tiny_gguf

pytestmark = pytest.mark.reference

DRAFT_IDS = np.array([3, 4, 9, 40, 41, 100], np.int32)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Target, Head]:
    folder = tmp_path_factory.mktemp("speculators")
    target = Target.load(tiny_gguf(folder / "m.gguf", format="Q8_0", layers=4).path)
    c = target.config
    shape = Shape(
        c.width, c.ffn_width, c.num_heads, c.num_kv_heads, c.head_dim, 3, 6, c.norm_epsilon, c.rope_base
    )
    torch.manual_seed(0)
    head = Head(shape, torch.from_numpy(target.embeddings))
    weights = {
        name.removesuffix(".weight"): values.detach().numpy() for name, values in head.named_parameters()
    }
    write_speculators(weights, target, (0, 1, 2), DRAFT_IDS, "org/model", 3, folder / "out")
    return folder / "out", target, head


def test_every_weight_has_the_name_and_the_shape_that_vllm_loads(
    written: tuple[Path, Target, Head],
) -> None:
    """q, k, v read the embedding beside the state: twice the width."""
    folder, target, head = written
    c, tensors = target.config, load_file(folder / "model.safetensors")
    width, queries, keys = c.width, c.num_heads * c.head_dim, c.num_kv_heads * c.head_dim
    layer = "layers.0."
    assert {name: tuple(values.shape) for name, values in tensors.items()} == {
        "fc.weight": (width, 3 * width),
        layer + "input_layernorm.weight": (width,),
        layer + "hidden_norm.weight": (width,),
        layer + "self_attn.q_proj.weight": (queries, 2 * width),
        layer + "self_attn.k_proj.weight": (keys, 2 * width),
        layer + "self_attn.v_proj.weight": (keys, 2 * width),
        layer + "self_attn.o_proj.weight": (width, queries),
        layer + "post_attention_layernorm.weight": (width,),
        layer + "mlp.gate_proj.weight": (c.ffn_width, width),
        layer + "mlp.up_proj.weight": (c.ffn_width, width),
        layer + "mlp.down_proj.weight": (width, c.ffn_width),
        "norm.weight": (width,),
        "lm_head.weight": (len(DRAFT_IDS), width),
        "embed_tokens.weight": (c.vocab_size, width),
        "d2t": (len(DRAFT_IDS),),
        "t2d": (c.vocab_size,),
    }
    assert torch.equal(tensors["lm_head.weight"], head.lm_head.weight.detach().bfloat16())


def test_the_maps_between_both_vocabularies(written: tuple[Path, Target, Head]) -> None:
    tensors = load_file(written[0] / "model.safetensors")
    assert (torch.arange(len(DRAFT_IDS)) + tensors["d2t"]).tolist() == DRAFT_IDS.tolist()
    assert tensors["t2d"].dtype == torch.bool
    assert tensors["t2d"].nonzero()[:, 0].tolist() == DRAFT_IDS.tolist()


def test_the_configuration(written: tuple[Path, Target, Head]) -> None:
    config = json.loads((written[0] / "config.json").read_text())
    c = written[1].config
    assert config["speculators_model_type"] == "eagle3"
    assert config["draft_vocab_size"] == len(DRAFT_IDS)
    assert config["eagle_aux_hidden_state_layer_ids"] == [1, 2, 3], "what enters a layer, not what leaves it"
    assert config["norm_before_residual"] is False
    assert config["speculators_config"]["proposal_methods"][0]["speculative_tokens"] == 3
    assert config["speculators_config"]["verifier"]["name_or_path"] == "org/model"
    layer = config["transformer_layer_config"]
    assert layer["num_hidden_layers"] == 1
    assert (layer["hidden_size"], layer["vocab_size"]) == (c.width, c.vocab_size)
    assert layer["rope_theta"] == c.rope_base

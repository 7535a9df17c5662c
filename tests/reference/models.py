"""transformers models of given weights: one in float32, as it comes, and one that is float64 throughout.

transformers keeps three things in float32 even in a float64 model: the normalisation, the softmax of
attention, and the rotary tables. `float64_model` replaces all three, so that it can judge float32.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import transformers
from transformers import PreTrainedModel
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from guessahead.checkpoints.gguf import GGUFFile, dequantize
from guessahead.types import Float32, Int32
from tests.support import rotations
from tests.support.families import FAMILIES
from tests.support.tiny import original_name, to_original_rows

Logits = npt.NDArray[np.floating[Any]]


def float32_model(arch: str, config: Mapping[str, object], weights: Mapping[str, Float32]) -> PreTrainedModel:
    """A transformers model in float32; config: arguments of its configuration class."""
    return _model(arch, config, weights, torch.float32, "eager")


def float64_model(arch: str, config: Mapping[str, object], weights: Mapping[str, Float32]) -> PreTrainedModel:
    """The same model, computing in float64 everywhere."""
    ALL_ATTENTION_FUNCTIONS.register("float64", _attention)
    model = _model(arch, config, weights, torch.float64, "float64")
    epsilon: float = model.config.rms_norm_eps
    for name, module in list(model.named_modules()):
        if type(module).__name__.endswith("RMSNorm"):
            norm = torch.nn.RMSNorm(module.weight.shape, epsilon, dtype=torch.float64)
            norm.weight = torch.nn.Parameter(module.weight + FAMILIES[arch].shift)
            model.set_submodule(name, norm)
    model.set_submodule("model.rotary_emb", _Rotary(model.config))
    return model


def quantise_inputs(
    model: PreTrainedModel, matrices: Container[str], levels: int = 127
) -> dict[str, torch.Tensor]:
    """Make a float64 model round what enters these matrices (names of weights) as the int8 route does.

    In blocks of 32, to multiples of a 127th of the block's largest value. Gives how near to half-way between
    two multiples the last texts came: name of the module -> [texts], in multiples.
    """
    nearest: dict[str, torch.Tensor] = {}

    def rounded(name: str, inputs: torch.Tensor) -> torch.Tensor:
        blocks = inputs.reshape(*inputs.shape[:-1], -1, 32)
        steps = (blocks.abs().amax(dim=-1, keepdim=True) / levels).clamp(min=1e-30)
        multiples = blocks / steps
        nearest[name] = (multiples - multiples.floor() - 0.5).abs().flatten(1).amin(dim=1)
        return (multiples.round() * steps).reshape(inputs.shape)

    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear) and f"{name}.weight" in matrices:
            module.register_forward_pre_hook(lambda _, inputs, name=name: rounded(name, inputs[0]))
    return nearest


def logits_of(model: PreTrainedModel, token_ids: Iterable[int]) -> Logits:
    """[positions, vocab], in the model's own precision."""
    with torch.inference_mode():
        logits: Logits = model(torch.tensor([list(token_ids)]), use_cache=False).logits[0].numpy()
    return logits


def each_layer(model: PreTrainedModel, texts: Int32, states: Float32) -> tuple[list[Logits], Logits]:
    """What every layer makes of the states that another engine had before it, and the logits of the last.

    texts: [texts, positions]. states: [layers, texts, positions, width], what left each layer there.
    Gives the same of this model, layer by layer, and its [texts, positions, vocab].
    """
    left: list[Logits] = []
    hooks = []
    for layer in model.model.layers:

        def leave(_module: torch.nn.Module, _inputs: object, output: torch.Tensor) -> torch.Tensor:
            left.append(output.numpy())
            return torch.tensor(states[len(left) - 1], dtype=torch.float64)

        hooks.append(layer.register_forward_hook(leave))
    with torch.inference_mode():
        logits: Logits = model(torch.tensor(texts), use_cache=False).logits.numpy()
    for hook in hooks:
        hook.remove()
    return left, logits


def read_gguf(path: Path) -> tuple[dict[str, object], dict[str, Float32]]:
    """A llama model's configuration and its dequantised weights, both as transformers wants them."""
    with GGUFFile.open(path) as file:
        number: dict[str, Any] = {name.removeprefix("llama."): value for name, value in file.metadata.items()}
        heads = {"attn_q": number["attention.head_count"], "attn_k": number["attention.head_count_kv"]}
        weights = {}
        for name, tensor in file.tensors.items():
            values = dequantize(np.frombuffer(tensor.data, np.uint8), tensor.type).reshape(tensor.shape)
            for stem, count in heads.items():
                if f".{stem}." in name:
                    values = to_original_rows(values, count)
            weights[original_name(name)] = values.copy()  # the file is closed below
    tied = "lm_head.weight" not in weights
    if tied:
        weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
    config: dict[str, object] = {
        "vocab_size": len(weights["model.embed_tokens.weight"]),
        "hidden_size": number["embedding_length"],
        "intermediate_size": number["feed_forward_length"],
        "num_hidden_layers": number["block_count"],
        "num_attention_heads": heads["attn_q"],
        "num_key_value_heads": heads["attn_k"],
        "max_position_embeddings": number["context_length"],
        "rope_theta": number["rope.freq_base"],
        "rms_norm_eps": number["attention.layer_norm_rms_epsilon"],
        "tie_word_embeddings": tied,
    }
    return config, weights


def quantised_names(path: Path, arch: str = "llama") -> set[str]:
    """transformers' names of the weights that are quantised in the file."""
    with GGUFFile.open(path) as file:
        quantised = [name for name, info in file.tensors.items() if info.type.block_size > 1]
        names = {original_name(name, FAMILIES[arch]) for name in quantised}
        if "output.weight" not in file.tensors and "model.embed_tokens.weight" in names:
            names.add("lm_head.weight")
    return names


def _model(
    arch: str,
    config: Mapping[str, object],
    weights: Mapping[str, Float32],
    dtype: torch.dtype,
    attention: str,
) -> PreTrainedModel:
    original = FAMILIES[arch].original
    model_class = getattr(transformers, original + "ForCausalLM")
    settings = model_class.config_class(**config, attn_implementation=attention)
    model: PreTrainedModel = model_class(settings).to(dtype).eval()
    # strict: every parameter is given, and nothing else is
    model.load_state_dict({name: torch.tensor(value) for name, value in weights.items()}, strict=True)
    return model


class _Rotary(torch.nn.Module):
    """cos and sin of position * base^(-2i/d), from frequency to table in float64."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        settings = config.rope_parameters
        self.settings = {None: settings} if "rope_theta" in settings else settings

    def forward(
        self, x: torch.Tensor, position_ids: torch.Tensor, layer_type: str | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        length = int(position_ids.max()) + 1
        frequencies, factor = rotations.stretched(self.dim, self.settings[layer_type], length)
        angles = position_ids[..., None].to(torch.float64) * torch.tensor(frequencies)
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos() * factor, angles.sin() * factor


def _attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float,
    sliding_window: int | None = None,
    softcap: float | None = None,
    **_: object,
) -> tuple[torch.Tensor, None]:
    """Causal attention of a whole sequence, [1, heads, positions, head_dim] -> [1, positions, heads, ...]."""
    groups = module.num_key_value_groups
    key, value = key.repeat_interleave(groups, dim=1), value.repeat_interleave(groups, dim=1)
    scores = query @ key.transpose(2, 3) * scaling
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    every = torch.ones(scores.shape[-2:], dtype=torch.bool)
    unseen = every.triu(1) if sliding_window is None else every.triu(1) | every.tril(-sliding_window)
    weights = scores.masked_fill(unseen, -torch.inf).softmax(dim=-1)
    return (weights @ value).transpose(1, 2).contiguous(), None

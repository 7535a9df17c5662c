"""A model folder as the engine sees it: what a GGUF file of the same model would hold."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import Final

import numpy as np

from guessahead.errors import ModelError
from guessahead.models.folders.config import FolderConfig
from guessahead.models.folders.files import read_json
from guessahead.models.folders.weights import read_weights
from guessahead.models.gguf import GGMLType, GGUFFile, TensorInfo, dequantize
from guessahead.models.gguf.types import Bytes

_LAYER_NAMES: Final = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_NAMES: Final = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


class ModelFolder(GGUFFile):
    """A folder that is read like a GGUF file: its numbers and tensors under GGUF's names, memory-mapped.

    Vectors become F32 here, as GGUF has them. The rows of q and k of the llama family come in the order of
    GGUF files (2i and 2i + 1 are a pair, not i and i + d/2), one matrix at a time, when `data` is asked for.
    """

    def __init__(self, path: Path) -> None:
        """Errors: ModelError, one line, where the folder is no model, or none that is supported."""
        self.path, self.version, self.encoded = path, 0, MappingProxyType({})
        config = FolderConfig(path / "config.json", read_json(path / "config.json"))
        self.metadata = MappingProxyType(config.metadata)
        heads: tuple[int, int] | None = None
        if config.family.paired:
            prefix = f"{config.family.architecture}.attention."
            heads = (_int(config, prefix + "head_count"), _int(config, prefix + "head_count_kv"))
        found: dict[str, TensorInfo] = {}
        for name, tensor in read_weights(path).items():
            renamed = _gguf_name(name)
            if renamed is None or (config.tied and renamed == "output.weight"):
                continue
            found[renamed] = _as_gguf(tensor, renamed, heads)
        divisors = config.rope_divisors()
        if divisors is not None:
            name, data = "rope_freqs.weight", divisors.view(np.uint8)
            found[name] = TensorInfo(name, GGMLType.F32, divisors.shape, data.size, data)
        if not config.tied and "output.weight" not in found:
            raise ModelError(f"{path}: the tensor 'lm_head.weight' is missing")
        self.tensors = MappingProxyType(found)


class _ReorderedRows(TensorInfo):
    """A weight or bias whose rows, within each head, are put into GGUF's order when they are asked for."""

    def __init__(self, source: TensorInfo, heads: int) -> None:
        for name in ("name", "type", "shape", "num_bytes"):
            object.__setattr__(self, name, getattr(source, name))
        object.__setattr__(self, "_source", source)
        object.__setattr__(self, "_heads", heads)

    @property
    def data(self) -> Bytes:
        source: TensorInfo = self._source  # type: ignore[attr-defined]
        halves = source.data.reshape(self._heads, 2, -1, source.num_bytes // source.shape[0])  # type: ignore[attr-defined]
        return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(-1)


def _as_gguf(tensor: TensorInfo, name: str, heads: tuple[int, int] | None) -> TensorInfo:
    """heads: of q and of k and v, where GGUF orders their rows differently."""
    if len(tensor.shape) == 1:
        values = dequantize(tensor.data, tensor.type)
        num_bytes = 4 * tensor.shape[0]
        return TensorInfo(name, GGMLType.F32, tensor.shape, num_bytes, values.view(np.uint8))
    renamed = TensorInfo(name, tensor.type, tensor.shape, tensor.num_bytes, tensor.data)
    stem = name.split(".")[-2]
    if heads is None or stem not in ("attn_q", "attn_k"):
        return renamed
    num_heads = heads[0] if stem == "attn_q" else heads[1]
    if len(tensor.shape) != 2 or tensor.shape[0] % (2 * num_heads):
        return renamed  # the engine says what shape it should have
    return _ReorderedRows(renamed, num_heads)


def _gguf_name(name: str) -> str | None:
    """model.layers.0.self_attn.q_proj.weight -> blk.0.attn_q.weight; None: not a tensor of the model."""
    stem, _, suffix = name.rpartition(".")
    if suffix not in ("weight", "bias"):
        return None
    if stem in _NAMES:
        return f"{_NAMES[stem]}.{suffix}"
    parts = stem.split(".", 3)
    if len(parts) == 4 and parts[:2] == ["model", "layers"] and parts[3] in _LAYER_NAMES:
        return f"blk.{parts[2]}.{_LAYER_NAMES[parts[3]]}.{suffix}"
    return None


def _int(config: FolderConfig, key: str) -> int:
    value = config.metadata[key]
    assert isinstance(value, int)
    return value

"""A model folder presented to the engine as a GGUF file of the same model."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType

import numpy as np

from guessahead.checkpoints.folders.config import FolderConfig
from guessahead.checkpoints.folders.names import gguf_name
from guessahead.checkpoints.folders.weights import read_weights
from guessahead.checkpoints.gguf import GGMLType, GGUFFile, TensorInfo, dequantize
from guessahead.checkpoints.gguf.types import Bytes
from guessahead.errors import ModelError
from guessahead.files import read_json


class ModelFolder(GGUFFile):
    """A folder that is read like a GGUF file: metadata and tensors by GGUF's names, memory-mapped.

    Vectors become F32, as in GGUF. The rows of q and k of the llama family get the order of GGUF files (2i
    and 2i + 1 are a pair, not i and i + d/2), one matrix at a time, when `data` is read.
    """

    def __init__(self, path: Path) -> None:
        """Errors: ModelError, one line, if the folder is not a model or not supported.

        A tensor that is not part of the supported model is refused.
        """
        if (path / "adapter_config.json").exists():
            raise ModelError(
                f"{path}: adapter_config.json: an adapter (LoRA) in the folder is not supported; "
                "merge it into the weights and remove its files"
            )
        self.path, self.version, self.encoded = path, 0, MappingProxyType({})
        config = FolderConfig(path / "config.json", read_json(path / "config.json"))
        self.metadata = MappingProxyType(config.metadata)
        heads: tuple[int, int] | None = None
        if config.family.paired:
            prefix = f"{config.family.architecture}.attention."
            heads = (_int(config, prefix + "head_count"), _int(config, prefix + "head_count_kv"))
        found: dict[str, TensorInfo] = {}
        for name, tensor in read_weights(path).items():
            renamed = gguf_name(name, config.family, config.num_layers)
            if renamed is None:
                raise ModelError(f"{path}: the tensor {name[:80]!r} is not supported for such models")
            found[renamed] = _as_gguf(tensor, renamed, heads)
        if config.tied:
            _tie(found)
        divisors = config.rope_divisors()
        if divisors is not None:
            name, data = "rope_freqs.weight", divisors.view(np.uint8)
            found[name] = TensorInfo(name, GGMLType.F32, divisors.shape, data.size, data)
        if not config.tied and "output.weight" not in found:
            raise ModelError(f"{path}: the tensor 'lm_head.weight' is missing")
        self.tensors = MappingProxyType(found)


class _ReorderedRows(TensorInfo):
    """A weight or bias whose rows, within each head, are put into GGUF's order when they are read."""

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


def _tie(tensors: dict[str, TensorInfo]) -> None:
    """Keep one matrix if embeddings and output are the same.

    As in transformers: if only one is present, it is used for both; if both are present and differ, both are
    used, whatever the configuration says.
    """
    table, output = tensors.get("token_embd.weight"), tensors.get("output.weight")
    if output is None:
        return
    if table is None:
        name = "token_embd.weight"
        tensors[name] = TensorInfo(name, output.type, output.shape, output.num_bytes, output.data)
    elif (table.type, table.shape) != (output.type, output.shape) or not np.array_equal(
        table.data, output.data
    ):
        return
    del tensors["output.weight"]


def _as_gguf(tensor: TensorInfo, name: str, heads: tuple[int, int] | None) -> TensorInfo:
    """A tensor by GGUF's name. heads: of q and of k and v, if GGUF orders their rows differently."""
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
        return renamed  # the engine checks its shape
    return _ReorderedRows(renamed, num_heads)


def _int(config: FolderConfig, key: str) -> int:
    value = config.metadata[key]
    assert isinstance(value, int)
    return value

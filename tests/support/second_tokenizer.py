"""A model file again with another tokenizer: the same tokens under other ids, and fewer merges.

The weights follow the ids, so the model says the same; as it says it in other ids, and cuts text into other
tokens than its twin, only drafts as text can make use of it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from guessahead.checkpoints.gguf import Encoded, GGUFFile, NewTensor, write_gguf
from guessahead.checkpoints.gguf.types import MetadataValue
from guessahead.text.vocabulary import KEY

_BY_TOKEN = ("token_embd.weight", "output.weight")


def with_other_tokenizer(source: Path, target: Path, *, seed: int = 1, num_merges: int = 40) -> Path:
    """Write the twin; special tokens keep their names."""
    with GGUFFile.open(source) as file:
        old: list[str] = list(file.metadata[KEY + "tokens"])
        kinds = np.array(file.metadata[KEY + "token_type"], np.int32)
        order = np.random.default_rng(seed).permutation(len(old))
        places = np.argsort(order)
        changed: dict[str, MetadataValue | Encoded] = {
            KEY + "tokens": [old[i] for i in order],
            KEY + "token_type": kinds[order],
            KEY + "merges": list(file.metadata[KEY + "merges"])[:num_merges],
        }
        for role in ("bos", "eos", "padding"):
            changed[f"{KEY}{role}_token_id"] = int(places[file.metadata[f"{KEY}{role}_token_id"]])
        kept = {key: Encoded(value) for key, value in file.encoded.items()}
        tensors = []
        for name, tensor in file.tensors.items():
            data = np.frombuffer(tensor.data, np.uint8).copy()
            if name in _BY_TOKEN:
                data = np.ascontiguousarray(data.reshape(len(old), -1)[order]).reshape(-1)
            tensors.append(NewTensor(name, tensor.type, tensor.shape, lambda data=data: (data,)))
        write_gguf(target, kept | changed, tensors)
    return target

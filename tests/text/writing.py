"""A tiny model with a tokenizer of one's own, which llama.cpp loads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from guessahead.checkpoints.gguf import Encoded, GGUFFile, NewTensor, write_gguf
from tests.support.tiny import tiny_gguf


def write_model(path: Path, metadata: dict[str, Any]) -> None:
    """A tiny model with this tokenizer; the server needs some weights."""
    vocab = len(metadata["tokenizer.ggml.tokens"])
    plain = path.with_suffix(".plain")
    tiny_gguf(plain, vocab=vocab, layers=1)
    with GGUFFile.open(plain) as file:
        kept = {k: Encoded(v) for k, v in file.encoded.items() if not k.startswith("tokenizer.")}
        tensors = [NewTensor(t.name, t.type, t.shape, lambda t=t: (t.data,)) for t in file.tensors.values()]
        arrays = {"token_type": np.int32, "scores": np.float32}
        changed = dict(metadata)
        for name, kind in arrays.items():
            if (key := f"tokenizer.ggml.{name}") in changed:
                changed[key] = np.array(changed[key], kind)
        write_gguf(path, {**kept, **changed}, tensors)

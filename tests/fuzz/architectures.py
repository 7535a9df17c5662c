"""GGUF files of every architecture whose numbers are changed, or bytes near them."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from guessahead.checkpoints.gguf import GGMLType, GGUFFile, NewTensor, write_gguf
from tests.fuzz.mutate import ODD_NUMBERS, mutate_bytes
from tests.support.families import FAMILIES
from tests.support.tiny import tiny_gguf

VALUES: tuple[Any, ...] = (
    *(number for number in ODD_NUMBERS if number < 1 << 63),
    *(-1, 3, 4, 8, 16, 24, 80, 0.0, -1.5, 1e-30, 1e-3, 0.5, 1.0, 1.5, 32.0, 1e30, float("nan"), float("inf")),
    *("", "x", "none", "linear", "yarn", "longrope", "dynamic", "llama", ["a"], np.zeros(3, np.int8), True),
)  # fmt: skip
# Keys that a file may have, beside those that it has.
KEYS = (
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.original_context_length",
    "rope.scaling.attn_factor",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    "rope.scaling.yarn_log_multiplier",
    "rope.freq_base_swa",
    "attention.sliding_window",
    "attention.sliding_window_pattern",
    "attention.scale",
    "logit_scale",
    "expert_count",
    "final_logit_softcapping",
)


def maker(folder: Path) -> Callable[[random.Random], Path]:
    """Writes a mutation of the tiny file of some architecture and says where it is."""
    shape: dict[str, Any] = {"format": "F32", "layers": 1, "width": 32, "ffn": 32, "heads": 2, "kv_heads": 1}
    paths = [tiny_gguf(folder / f"{name}.gguf", name, context=64, **shape).path for name in FAMILIES]
    files = [(path.read_bytes(), *_contents(path)) for path in paths]
    target = folder / "architecture.gguf"

    def make(rng: random.Random) -> Path:
        data, metadata, tensors = rng.choice(files)
        numbers_end, tensors_start = data.index(b"tokenizer.ggml.model"), data.index(b"token_embd.weight") - 8
        kind = rng.randrange(4)
        if kind == 0:
            target.write_bytes(mutate_bytes(data[:numbers_end], rng, numbers_end) + data[numbers_end:])
        elif kind == 1:
            target.write_bytes(data[:tensors_start] + mutate_bytes(data[tensors_start:], rng, 1200))
        else:
            _write(target, metadata, tensors, rng)
        return target

    return make


def _contents(path: Path) -> tuple[Mapping[str, Any], list[NewTensor]]:
    def copied(data: npt.NDArray[np.uint8]) -> Callable[[], tuple[npt.NDArray[np.uint8]]]:
        return lambda: (data,)

    with GGUFFile.open(path) as file:
        tensors = [
            NewTensor(each.name, each.type, tuple(each.shape), copied(np.array(each.data)))
            for each in file.tensors.values()
        ]
        return dict(file.metadata), tensors


def _write(path: Path, metadata: Mapping[str, Any], tensors: list[NewTensor], rng: random.Random) -> None:
    """One to three keys changed, added or removed; now and then a tensor left out, or one of zeros more."""
    changed, kept = dict(metadata), list(tensors)
    prefix = f"{metadata['general.architecture']}."
    keys = [key for key in metadata if key.startswith(prefix)] + [prefix + key for key in KEYS]
    for _ in range(rng.choice((1, 1, 2, 3))):
        key = rng.choice(keys)
        if rng.random() < 0.1:
            changed.pop(key, None)
        elif isinstance(changed.get(key), int) and rng.random() < 0.3:
            changed[key] = max(changed[key] + rng.choice((-1, 1, 8, 64)), 0)
        else:
            changed[key] = rng.choice(VALUES)
    if rng.random() < 0.2:
        del kept[rng.randrange(len(kept))]
    if rng.random() < 0.1:
        name = rng.choice(
            ("rope_freqs", "rope_factors_long", "rope_factors_short", "output", "blk.0.attn_q_norm")
        )
        size = rng.choice((1, 8, 16, 32))
        zeros = np.zeros(4 * size, np.uint8)
        kept.append(NewTensor(f"{name}.weight", GGMLType.F32, (size,), lambda: (zeros,)))
    write_gguf(path, changed, kept)

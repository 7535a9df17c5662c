"""What changes the tensors of a tiny Llama into those of another architecture."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from guessahead.types import Float32
from tests.support import rotations

if TYPE_CHECKING:
    from tests.support.tiny import TinyModel

Tensors = dict[str, Float32]
Change = Callable[[Tensors, "TinyModel"], Tensors]


def same(tensors: Tensors, model: TinyModel) -> Tensors:
    """A Llama's tensors as they are."""
    return tensors


def norm(size: int, seed: int) -> Float32:
    """Weights around 1 that lose nothing when 1 is taken off."""
    values = 1 + 0.2 * np.random.default_rng([size, seed]).standard_normal(size)
    return (np.round(values * 4096) / 4096).astype(np.float32)


def qk_norms(whole: bool) -> Change:
    def change(tensors: Tensors, model: TinyModel) -> Tensors:
        changed = dict(tensors)
        for layer in range(model.layers):
            q, k = (1, 1) if not whole else (model.heads, model.kv_heads)
            changed[f"blk.{layer}.attn_q_norm.weight"] = norm(q * model.head_dim, 2 * layer)
            changed[f"blk.{layer}.attn_k_norm.weight"] = norm(k * model.head_dim, 2 * layer + 1)
        return changed

    return change


def post_norms(tensors: Tensors, model: TinyModel) -> Tensors:
    changed = dict(tensors)
    for layer in range(model.layers):
        changed[f"blk.{layer}.post_attention_norm.weight"] = norm(model.width, 100 + layer)
        changed[f"blk.{layer}.post_ffw_norm.weight"] = norm(model.width, 200 + layer)
    return changed


def without(*stems: str) -> Change:
    def change(tensors: Tensors, model: TinyModel) -> Tensors:
        return {name: values for name, values in tensors.items() if name.split(".")[-2] not in stems}

    return change


def exact_norms(tensors: Tensors, model: TinyModel) -> Tensors:
    """All norms as `norm` makes them; those of the output keep their size."""
    return {
        name: np.round(values * 4096).astype(np.float32) / 4096 if values.ndim == 1 else values
        for name, values in tensors.items()
    }


def fused(tensors: Tensors, model: TinyModel) -> Tensors:
    changed = without("attn_q", "attn_k", "attn_v", "ffn_gate", "ffn_up")(tensors, model)
    for layer in range(model.layers):
        block = f"blk.{layer}."
        for target, stems in (
            ("attn_qkv", ("attn_q", "attn_k", "attn_v")),
            ("ffn_up", ("ffn_gate", "ffn_up")),
        ):
            changed[f"{block}{target}.weight"] = np.concatenate(
                [tensors[f"{block}{stem}.weight"] for stem in stems]
            )
    return changed


def llama3_factors(tensors: Tensors, model: TinyModel) -> Tensors:
    """Llama 3's division of the frequencies, as its converter stores it."""
    plain = rotations.plain(model.head_dim, model.rope_base)
    return tensors | {
        "rope_freqs.weight": (plain / rotations.llama3(plain, rotations.LLAMA3)).astype(np.float32)
    }


def longrope_factors(tensors: Tensors, model: TinyModel) -> Tensors:
    """Both sets of divisors of the frequencies."""
    sets = {
        name: np.array(rotations.longrope_factors(f"{name}_factor", model.head_dim), np.float32)
        for name in ("short", "long")
    }
    return tensors | {f"rope_factors_{name}.weight": values for name, values in sets.items()}


def chain(*changes: Change) -> Change:
    def change(tensors: Tensors, model: TinyModel) -> Tensors:
        for each in changes:
            tensors = each(tensors, model)
        return tensors

    return change

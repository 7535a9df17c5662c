"""The supported architectures, described from the keys of their GGUF files (llama.cpp's conventions).

Each function returns the spec of a checkpoint, from which `builder.py` builds the pass. Sources are the
models' papers and their implementations in transformers, against which tests/reference compares each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from guessahead.checkpoints.gguf.rotation import MAX_CONTEXT, Rotation, linear, rotation_frequencies, yarn
from guessahead.engines.native.builder import (
    ArchitectureSpec,
    Attention,
    Builder,
    LoadedModel,
    RunSettings,
    default_scale,
)
from guessahead.engines.native.checkpoint import Checkpoint

__all__ = ["ARCHITECTURES", "SPECS", "LoadedModel", "RunSettings"]

Describe = Callable[[Checkpoint], ArchitectureSpec]


def rotation_of(checkpoint: Checkpoint) -> Rotation:
    """The rotation that most architectures use, as the file stretches it."""
    c = checkpoint.config
    scaling, frequencies = c.rope_scaling, rotation_frequencies(c.rope_dim, c.rope_base)
    if scaling.kind == "longrope":
        rotation = longrope(checkpoint, frequencies)
    elif scaling.kind == "yarn":
        rotation = yarn(frequencies, c.rope_base, scaling)
    else:
        rotation = linear(frequencies, scaling.factor)
    if rotation.gain != 1.0 and c.rope_dim < c.head_dim:
        checkpoint.fail(
            f"rotary embeddings scaled by {scaling.kind!r} are not supported for a part of each head"
        )
    if not checkpoint.has("rope_freqs.weight"):
        return rotation
    return replace(rotation, frequencies=divided(checkpoint, "rope_freqs.weight", rotation.frequencies))


def longrope(checkpoint: Checkpoint, frequencies: Sequence[float]) -> Rotation:
    """Frequencies divided by factors of the file: one set for all texts, chosen by how long they may become.

    (If the length of each text decided, the cache would have to be recomputed at some token.)
    """
    scaling = checkpoint.config.rope_scaling
    short, long = (
        divided(checkpoint, f"rope_factors_{name}.weight", frequencies) for name in ("short", "long")
    )
    return Rotation(long if checkpoint.context > scaling.original else short, scaling.attention_factor**2)


def divided(checkpoint: Checkpoint, name: str, frequencies: Sequence[float]) -> list[float]:
    """Each frequency divided by its factor from a tensor (Llama 3, LongRoPE)."""
    factors = checkpoint.vector(name, len(frequencies)).tolist()
    if not all(1e-6 <= factor <= 1e6 for factor in factors):
        checkpoint.fail(f"tensor {name!r} holds factors that are not positive numbers")
    return [each / factor for each, factor in zip(frequencies, factors, strict=True)]


def spec(checkpoint: Checkpoint, windows: Sequence[int] | None = None, **traits: Any) -> ArchitectureSpec:
    """A spec with the same rotation in all layers. windows: per layer; None = the file's in all of them."""
    c = checkpoint.config
    rotation = rotation_of(checkpoint)
    windows = [c.sliding_window] * c.num_layers if windows is None else windows
    traits.setdefault("attention_scale", default_scale(c.head_dim))
    return ArchitectureSpec(layers=[Attention(rotation, window) for window in windows], **traits)


def refuse_window(checkpoint: Checkpoint) -> None:
    """Raise a ModelError if the file has a sliding window, which the architecture does not support."""
    if checkpoint.config.sliding_window:
        name = f"{checkpoint.architecture}.attention.sliding_window"
        checkpoint.fail(f"metadata {name!r} is not supported for {checkpoint.architecture!r} models")


def llama(checkpoint: Checkpoint) -> ArchitectureSpec:
    """Llama 2 and 3, Mistral (with its sliding window, if the file has one), SmolLM2, TinyLlama, ..."""
    return spec(checkpoint, paired_rope=True)


def qwen2(checkpoint: Checkpoint) -> ArchitectureSpec:
    """Qwen 2 and 2.5: biases on q, k and v. Their files have no window."""
    return spec(checkpoint, qkv_bias=True)


def qwen3(checkpoint: Checkpoint) -> ArchitectureSpec:
    """Qwen 3, dense: every head of q and k is normalised, and heads have a width of their own."""
    return spec(checkpoint, qk_norm="head")


def phi3(checkpoint: Checkpoint) -> ArchitectureSpec:
    """Phi-3 and 4: q, k, v in one tensor, gate and up in another; a window, if the file has one."""
    return spec(checkpoint, fused=checkpoint.has("blk.0.attn_qkv.weight"))


def granite(checkpoint: Checkpoint) -> ArchitectureSpec:
    """Granite, dense: a Llama with four multipliers."""
    c = checkpoint.config
    number = checkpoint.metadata_number
    return spec(
        checkpoint,
        paired_rope=True,
        attention_scale=number("attention.scale", 0.0, 1e3, default=0.0) or default_scale(c.head_dim),
        embedding_scale=number("embedding_scale", 0.0, 1e6, default=0.0) or 1.0,
        residual_scale=number("residual_scale", 0.0, 1e3, default=0.0) or 1.0,
        logit_divisor=number("logit_scale", 0.0, 1e6, default=0.0) or 1.0,
    )


def olmo2(checkpoint: Checkpoint) -> ArchitectureSpec:
    """OLMo 2: norms on the output of each branch, not on its input; q and k are normalised as a whole."""
    refuse_window(checkpoint)  # of OLMo 3, whose layers differ
    return spec(checkpoint, qk_norm="whole", pre_norms=False, post_norms=True)


def gemma_scale(checkpoint: Checkpoint, largest: int) -> float:
    """The scale of attention scores; the largest model, recognised by its layers, uses width / heads."""
    c = checkpoint.config
    return default_scale(c.width // c.num_heads if c.num_layers == largest else c.head_dim)


def gemma2(checkpoint: Checkpoint) -> ArchitectureSpec:
    """Gemma 2: soft caps, every other layer local (from the first), four norms a layer, GELU."""
    c, number = checkpoint.config, checkpoint.metadata_number
    window = checkpoint.metadata_count("attention.sliding_window", MAX_CONTEXT, default=4096)
    return spec(
        checkpoint,
        [window if i % 2 == 0 else 0 for i in range(c.num_layers)],
        attention_scale=gemma_scale(checkpoint, largest=46),
        attention_cap=number("attn_logit_softcapping", 0.0, 1e6, default=50.0),
        logit_cap=number("final_logit_softcapping", 0.0, 1e6, default=30.0),
        post_norms=True,
        gelu=True,
        embedding_scale=math.sqrt(c.width),
    )


def gemma3(checkpoint: Checkpoint) -> ArchitectureSpec:
    """Gemma 3, text: five local layers, with a rotation of their own, to one global; norms on q and k."""
    c, number = checkpoint.config, checkpoint.metadata_number
    window = checkpoint.metadata_count("attention.sliding_window", MAX_CONTEXT, default=1024)
    pattern = checkpoint.metadata_count("attention.sliding_window_pattern", 1 << 12, default=6)
    base = number("rope.freq_base_swa", 1.0, 1e12, default=10000.0)
    local, whole = (
        Attention(Rotation(rotation_frequencies(c.rope_dim, base)), window),
        Attention(rotation_of(checkpoint)),
    )
    return ArchitectureSpec(
        layers=[local if pattern and (i + 1) % pattern else whole for i in range(c.num_layers)],
        attention_scale=gemma_scale(checkpoint, largest=62),
        logit_cap=number("final_logit_softcapping", 0.0, 1e6, default=0.0),
        qk_norm="head",
        post_norms=True,
        gelu=True,
        embedding_scale=math.sqrt(c.width),
    )


def smollm3(checkpoint: Checkpoint) -> ArchitectureSpec:
    """SmolLM 3: every fourth layer has no positions."""
    refuse_window(checkpoint)
    c, rotation = checkpoint.config, rotation_of(checkpoint)
    layers = [Attention(rotation if (i + 1) % 4 else Rotation([])) for i in range(c.num_layers)]
    return ArchitectureSpec(layers=layers, attention_scale=default_scale(c.head_dim), paired_rope=True)


SPECS: dict[str, Describe] = {
    "llama": llama,
    "qwen2": qwen2,
    "qwen3": qwen3,
    "phi3": phi3,
    "granite": granite,
    "olmo2": olmo2,
    "gemma2": gemma2,
    "gemma3": gemma3,
    "smollm3": smollm3,
}


def _build(describe: Describe, checkpoint: Checkpoint, settings: RunSettings) -> LoadedModel:
    checkpoint.context = settings.context
    return Builder(checkpoint, settings, describe(checkpoint)).build()


ARCHITECTURES: dict[str, Callable[[Checkpoint, RunSettings], LoadedModel]] = {
    name: partial(_build, describe) for name, describe in SPECS.items()
}

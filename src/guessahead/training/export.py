"""A trained head -> files: ours (`guessahead.heads.files`), and those that vLLM's `speculators` read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from guessahead.engines.native.checkpoint import Config
from guessahead.gguf.quantize import quantize
from guessahead.gguf.types import GGMLType
from guessahead.heads.files import MATRICES, NORMS, HeadConfig, HeadFiles
from guessahead.types import Float32, Int32

# Of the matrices. The output takes half of the bytes and hardly notices four bits; the layer does.
FORMATS: Final = dict.fromkeys(MATRICES, "Q8_0") | {"lm_head": "Q5_0"}


def to_files(
    weights: Mapping[str, Float32],
    config: Config,
    fingerprint: str,
    layers: tuple[int, ...],
    draft_ids: Int32,
) -> HeadFiles:
    """weights: float32 of every matrix and norm, by the names in `guessahead.heads.files`."""
    head = HeadConfig(
        fingerprint=fingerprint,
        layers=layers,
        width=config.width,
        ffn_width=config.ffn_width,
        num_heads=config.num_heads,
        num_kv_heads=config.num_kv_heads,
        head_dim=config.head_dim,
        vocab_size=len(draft_ids),
        norm_epsilon=config.norm_epsilon,
        rope_base=config.rope_base,
        formats=FORMATS,
    )
    matrices = {name: quantize(weights[name], GGMLType[FORMATS[name]]) for name in MATRICES}
    return HeadFiles(head, matrices, {name: weights[name] for name in NORMS}, draft_ids)

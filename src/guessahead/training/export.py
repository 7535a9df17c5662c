"""Export of a trained head to the files of `guessahead.heads`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from guessahead.checkpoints.gguf.quantize import quantize
from guessahead.checkpoints.gguf.types import GGMLType
from guessahead.engines.native.checkpoint import Config
from guessahead.heads.files import MATRICES, NORMS, HeadConfig, HeadFiles
from guessahead.types import Float32, Int32

# The format of the matrices. SmolLM2's head with five bits agrees with the target as often as with eight
# (46.3 % of 8,134 guesses), and every first guess of a step reads all of it from memory; four bits lose half
# a percent.
FORMATS: Final = dict.fromkeys(MATRICES, "Q5_0")


def to_files(
    weights: Mapping[str, Float32],
    config: Config,
    fingerprint: str,
    layers: tuple[int, ...],
    draft_ids: Int32,
) -> HeadFiles:
    """The files of a head. weights: float32 matrices and norms, by the names in `guessahead.heads.files`."""
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

"""Draft heads of random weights, for tiny models: right as often as chance has it, but with real passes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from guessahead.checkpoints.gguf import GGMLType, quantize
from guessahead.engines.native import NativeEngine
from guessahead.heads.files import MATRICES, NORMS, HeadConfig, HeadFiles

NUM_DRAFT_IDS = 96


def tiny_head(
    engine: NativeEngine,
    format: str = "Q8_0",
    formats: Mapping[str, str] | None = None,
    *,
    layers: tuple[int, ...] = (0, 1),
    seed: int = 0,
) -> HeadFiles:
    """A head that fits the engine's model.

    format: of all matrices; formats: exceptions by name. layers: of the model whose hidden states it reads.
    """
    host = engine.head_host
    width, vocab = host.embeddings.k, host.embeddings.n
    rng = np.random.default_rng([seed, 0x4EAD])
    config = HeadConfig(
        fingerprint=host.fingerprint,
        layers=layers,
        width=width,
        ffn_width=2 * width,
        num_heads=4,
        num_kv_heads=2,
        head_dim=width // 4,
        vocab_size=NUM_DRAFT_IDS,
        norm_epsilon=1e-5,
        rope_base=10000.0,
        formats=dict.fromkeys(MATRICES, format) | dict(formats or {}),
    )
    matrices = {}
    for name in MATRICES:
        rows, columns = config.shape(name)
        gain = 8.0 if name == "lm_head" else 1.0  # almost uniform chances would show little
        values = (rng.standard_normal((rows, columns)) * gain / np.sqrt(columns)).astype(np.float32)
        matrices[name] = quantize(values, GGMLType[config.formats[name]])
    norms = {name: (1 + 0.1 * rng.standard_normal(width)).astype(np.float32) for name in NORMS}
    draft_ids = np.sort(rng.permutation(vocab)[:NUM_DRAFT_IDS]).astype(np.int32)
    return HeadFiles(config, matrices, norms, draft_ids)

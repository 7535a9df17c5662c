"""Shards of made-up texts, whose hidden states say which token and which text they belong to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from guessahead.training.batch import Bfloat16, Text, to_bfloat16
from guessahead.training.shards import Store
from guessahead.types import Float32, Int32

WIDTH, LAYERS = 32, 3


def made_text(asked: Sequence[int], answer: Sequence[int], number: int = 0) -> Text:
    """Its hidden states begin with number, position and token; those of the last token are missing."""
    tokens: Int32 = np.array([*asked, *answer], np.int32)
    hidden = np.zeros((len(tokens) - 1, LAYERS, WIDTH), np.float32)
    hidden[:, :, 0] = number
    hidden[:, :, 1] = np.arange(len(tokens) - 1)[:, None]
    hidden[:, :, 2] = tokens[:-1, None]
    return Text(tokens, np.arange(len(tokens)) >= len(asked), to_bfloat16(hidden))


def stored(folder: Path, shards: Sequence[list[Text]]) -> list[Path]:
    store = Store(folder, "made up")
    return [store.path(number) for number in store.fill(len(shards), shards.__getitem__)]


def from_bfloat16(values: Bfloat16) -> Float32:
    """Exact."""
    return (values.astype(np.uint32) << 16).view(np.float32)

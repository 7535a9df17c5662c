"""Where a model first computes numbers that are not finite, for the message of an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from guessahead.protocols import Rows

if TYPE_CHECKING:
    from guessahead.protocols import Engine
    from guessahead.types import Int32

_ROWS: Final = 64  # tokens whose hidden states are held at once


def where_not_finite(engine: Engine, token_ids: Int32) -> str:
    """A sentence on the first layer whose output is not finite in a text, found by running the text again."""
    info = engine.info
    sequence = engine.new_sequence()
    try:
        for begin in range(0, len(token_ids), _ROWS):
            part = token_ids[begin : begin + _ROWS]
            [output] = engine.forward([Rows(sequence, part, want_hidden=tuple(range(info.num_layers)))])
            for layer, states in sorted((output.hidden or {}).items()):
                broken = np.flatnonzero(~np.isfinite(states).all(axis=1))
                if len(broken):
                    at = begin + int(broken[0])
                    place = f"layer {layer} of {info.num_layers}" if layer else "layer 0, or in the embedding"
                    return _sentence(info.name, f"first in {place}, at token {at} (id {token_ids[at]})")
    finally:
        sequence.close()
    return _sentence(info.name, "behind the last layer: in the last norm or in the output matrix")


def _sentence(name: str, where: str) -> str:
    return (
        f"the model {name!r} computes numbers that are not finite, {where}: its weights are damaged, or too "
        "large for the number format that they or the cache have"
    )

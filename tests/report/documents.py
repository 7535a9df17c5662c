"""Trace documents made up for tests: a text of given pieces, guessed as told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from guessahead.report import Trace, parse_trace

NAME = "made up"


@dataclass
class Made:
    """guesses: the draft; path: accepted nodes; emitted: the tokens; all as indices of the pieces."""

    guesses: Sequence[int]
    path: Sequence[int]
    emitted: Sequence[int]
    parents: Sequence[int] | None = None
    origins: Sequence[str] | None = None
    kind: str = "correction"
    why: object = None


def document(
    pieces: Sequence[str | bytes],
    steps: Sequence[Made],
    *,
    prompt: Sequence[int] = (0,),
    control: Sequence[int] = (),
    stats: dict[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """A whole document; every step took 1 + 8 + 1 ms."""
    return {
        "version": 1,
        "model": "model",
        "drafter": "looker",
        "gamma": 4,
        "seed": 1,
        "prompt_token_ids": list(prompt),
        "finish_reason": "length",
        "steps": [_step(step) for step in steps],
        "tokens": {
            str(index): piece if isinstance(piece, str) else {"hex": piece.hex()}
            for index, piece in enumerate(pieces)
        },
        "control_token_ids": list(control),
        "stats": stats or {},
        **more,
    }


def trace(*arguments: Any, **more: Any) -> Trace:
    return parse_trace(document(*arguments, **more), NAME)


def _step(step: Made) -> dict[str, Any]:
    num_guesses = len(step.guesses)
    parents = list(range(-1, num_guesses - 1)) if step.parents is None else list(step.parents)
    drafters = list(step.origins or ["looker"] * num_guesses)
    origins = [drafters[node] for node in step.path] + ["target"] * (len(step.emitted) - len(step.path))
    return {
        "draft": {
            "token_ids": list(step.guesses),
            "parents": parents,
            "confidence": None,
            "origins": step.origins and list(step.origins),
        },
        "rows": [0, *step.guesses],
        "num_committed_rows": 1,
        "chosen": list(step.emitted),
        "path": list(step.path),
        "token_ids": list(step.emitted),
        "origins": origins,
        "kind": step.kind if num_guesses else "plain",
        "seconds": {"propose": 0.001, "forward": 0.008, "rest": 0.001},
        "why": step.why,
    }

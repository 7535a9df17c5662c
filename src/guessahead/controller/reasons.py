"""Why a step guessed what it guessed, ready for JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from guessahead.controller.asking import Step
    from guessahead.controller.members import Member


def reasons(step: Step, members: Iterable[Member], nodes: list[int]) -> dict[str, Any]:
    """Costs, who was asked, and every guess with its chance. nodes: the guesses that were chosen."""
    found, curve = step.found, step.curve
    num_rows = min(len(found.tokens) + 1, len(curve.v) - 1)
    return {
        "tokens_per_second": step.price,
        "plain_seconds": curve.seconds,
        "v": [round(value, 3) for value in curve.v[1 : num_rows + 1]],
        "members": [
            {
                "drafter": member.drafter.name,
                "note": member.drafter.note,
                "decision": member.reason,
                "mean": round(member.track.mean, 3),
                "num_scored": member.track.num_trials,
            }
            for member in members
        ],
        "candidates": [
            {
                "token_id": token,
                "parent": found.parents[node],
                "confidence": round(found.sources[node][0][1], 3),
                "reach": round(found.reach[node], 3),
                "by": [member.drafter.name for member, _ in found.sources[node]],
                "chosen": node in nodes,
            }
            for node, token in enumerate(found.tokens)
        ],
        "value": round(step.value, 3),
    }

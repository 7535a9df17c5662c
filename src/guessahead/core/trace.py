"""The record of every step of a generation, ready for JSON. The keys are stable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from guessahead.core import tree

if TYPE_CHECKING:
    from guessahead.core.stats import StepSeconds
    from guessahead.protocols import Rows
    from guessahead.types import Chunk, Draft, Int32, Request, Verdict


class Trace:
    """The steps of one generation so far.

    The document: model, drafter, gamma, acceptance, seed, prompt_token_ids, finish_reason, and steps, each
    with draft: token_ids, parents (-1 = the last committed token), confidence (the drafter's probability of
    each guess) and origins (or None); rows: the tokens of the pass: the committed ones that the cache lacked,
    then the draft; num_committed_rows: how many of the rows are committed; chosen: the target's choice after
    each row, -1 where none was needed; path: the accepted draft nodes that were emitted; token_ids, origins:
    all tokens emitted, and the drafter that guessed each ("target": not guessed); kind: "plain" (no guesses),
    "correction" (the last token replaces a wrong guess), "bonus" (all guesses on the path were right and the
    last token comes on top), "cut" (the text ended within the guesses); seconds: propose, forward, rest;
    why: if the controller decided, its reasons (controller/controller.py).
    """

    def __init__(self, request: Request, model: str, drafter: str, seed: int) -> None:
        self._request, self._model, self._drafter, self._seed = request, model, drafter, seed
        self._steps: list[dict[str, Any]] = []

    def add(self, rows: Rows, draft: Draft, chosen: Int32, full: Verdict, chunk: Chunk) -> None:
        """Add a committed step. full: the verdict on `chosen`, before it was cut at the end of the text."""
        num_emitted = len(chunk.token_ids)
        num_committed = len(rows.token_ids) - len(draft)
        probabilities = draft.probabilities
        self._steps.append(
            {
                "draft": {
                    "token_ids": draft.token_ids.tolist(),
                    "parents": tree.parents_of(draft).tolist(),
                    "confidence": None if probabilities is None else probabilities.tolist(),
                    "origins": list(draft.origins) if draft.origins else None,
                },
                "rows": rows.token_ids.tolist(),
                "num_committed_rows": num_committed,
                "chosen": [-1] * (num_committed - 1) + chosen.tolist(),
                "path": full.path[:num_emitted].tolist(),
                "token_ids": list(chunk.token_ids),
                "origins": list(chunk.origins),
                "kind": _kind(draft, full, num_emitted),
            }
        )

    def time(self, seconds: StepSeconds, why: Mapping[str, Any] | None) -> None:
        """Add the times of the last step, and the reasons for its guesses."""
        self._steps[-1]["seconds"] = {
            "propose": seconds.propose,
            "forward": seconds.forward,
            "rest": seconds.rest,
        }
        if why is not None:
            self._steps[-1]["why"] = why

    def document(self, finish_reason: str | None) -> Mapping[str, Any]:
        """The complete document."""
        request = self._request
        return {
            "model": self._model,
            "drafter": self._drafter,
            "gamma": request.gamma,
            "acceptance": request.acceptance,
            "seed": self._seed,
            "prompt_token_ids": request.prompt_ids.tolist(),
            "steps": self._steps,
            "finish_reason": finish_reason,
        }


def _kind(draft: Draft, full: Verdict, num_emitted: int) -> str:
    if len(draft) == 0:
        return "plain"
    if num_emitted < len(full.token_ids):
        return "cut"
    return "correction" if full.num_tested > len(full.path) else "bonus"

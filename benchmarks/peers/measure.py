"""The harness: every way of decoding on every prompt, in turn; and what follows from the times."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.peers.base import Answer, Peer
from guessahead.measure.bench.drafters import mean
from guessahead.measure.bench.workload import Task


@dataclass(frozen=True, slots=True)
class Result:
    """One prompt by one mode of one peer, beside that peer's own plain decoding in the same rounds."""

    task: Task
    peer: str
    mode: str
    answers: Sequence[Answer]
    plain: Sequence[Answer]

    @property
    def tokens_per_second(self) -> float:
        return median(answer.tokens_per_second for answer in self.answers)

    @property
    def ratio(self) -> float:
        return self.tokens_per_second / median(answer.tokens_per_second for answer in self.plain)

    @property
    def identical(self) -> bool:
        return all(answer.token_ids == self.plain[0].token_ids for answer in self.answers)

    @property
    def alpha(self) -> float | None:
        """Accepted over drafted, which is all that the peers report; None if they report nothing."""
        drafted = sum(answer.num_drafted or 0 for answer in self.answers)
        return sum(answer.num_accepted or 0 for answer in self.answers) / drafted if drafted else None

    def to_dict(self) -> dict[str, Any]:
        return {
            "prompt_id": self.task.prompt_id,
            "category": self.task.category,
            "peer": self.peer,
            "mode": self.mode,
            "num_tokens": len(self.answers[0].token_ids),
            "tokens_per_second": self.tokens_per_second,
            "ratio_to_own_plain": self.ratio,
            "first_token_seconds": median(answer.first_token_seconds for answer in self.answers),
            "accepted_of_drafted": self.alpha,
            "identical": self.identical,
        }


def measure(
    peers: Sequence[Peer],
    tasks: Sequence[Task],
    prompt_ids: Callable[[Task], Sequence[int]],
    *,
    num_tokens: int,
    num_rounds: int,
    progress: Callable[[str], None],
) -> list[Result]:
    """Every mode is warmed up once; each round of a prompt begins with another mode."""
    every = [(peer, mode) for peer in peers for mode in peer.modes]
    for peer, mode in every:
        progress(f"warming up {peer.name} {mode}")
        peer.generate(mode, prompt_ids(tasks[0]), 8)
    results = []
    for index, task in enumerate(tasks):
        ids = prompt_ids(task)
        found: dict[tuple[str, str], list[Answer]] = {(peer.name, mode): [] for peer, mode in every}
        for turn in range(num_rounds):
            start = (turn * len(every)) // num_rounds
            for peer, mode in (*every[start:], *every[:start]):
                progress(f"{index + 1}/{len(tasks)} {task.prompt_id}, round {turn + 1}: {peer.name} {mode}")
                found[peer.name, mode].append(peer.generate(mode, ids, num_tokens))
        results += [
            Result(task, peer.name, mode, found[peer.name, mode], found[peer.name, peer.modes[0]])
            for peer, mode in every
        ]
    return results


def summaries(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Per peer and mode, geometric means over the prompts."""
    by_mode: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        by_mode.setdefault((result.peer, result.mode), []).append(result)
    return [
        {
            "peer": peer,
            "mode": mode,
            "tokens_per_second": mean(result.tokens_per_second for result in found),
            "ratio_to_own_plain": mean(result.ratio for result in found),
            "lowest_ratio": min(result.ratio for result in found),
            "highest_ratio": max(result.ratio for result in found),
            "num_identical": sum(result.identical for result in found),
            "num_rows": len(found),
        }
        for (peer, mode), found in by_mode.items()
    ]


def best(entries: Sequence[Mapping[str, Any]], ours: str) -> list[dict[str, Any]]:
    """Our best mode against each other peer's best, by the geometric mean of tokens per second."""
    found: dict[str, Mapping[str, Any]] = {}
    for entry in entries:
        known = found.get(entry["peer"])
        if known is None or entry["tokens_per_second"] > known["tokens_per_second"]:
            found[entry["peer"]] = entry
    mine = found.pop(ours, None)
    if mine is None:
        return []
    return [
        {
            "mode": mine["mode"],
            "peer": peer,
            "peer_mode": entry["mode"],
            "ratio": mine["tokens_per_second"] / entry["tokens_per_second"],
        }
        for peer, entry in found.items()
    ]

"""`python -m benchmarks.structured`: JSON under 30 schemas, guessed ahead and by plain decoding.

Both follow the same grammar, in turns; the tokens are compared. Then, along the plain answers, what the masks
take: moving the grammar by a token and computing the set of allowed tokens, over the time of a plain pass.
The prompts and schemas are in structured.jsonl; about half of the tokens of their answers are forced.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import click
import numpy as np

from benchmarks.peers.common import say
from guessahead.errors import InputError
from guessahead.grammar import constraint_for
from guessahead.measure.bench.comparison import Comparison, compare
from guessahead.model import LanguageModel, load
from guessahead.types import Generation, Grammar

_FILE = Path(__file__).with_name("structured.jsonl")


@dataclass(frozen=True, slots=True)
class Task:
    id: str
    prompt: str
    schema: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Masks:
    """Of one answer. seconds: of every mask. forced: whether the grammar forced the token."""

    seconds: list[float]
    forced: list[bool]


@click.command()
@click.option("-m", "--model", default="smollm2-135m", show_default=True)
@click.option("--threads", type=int)
@click.option("--rounds", type=click.IntRange(1), default=1, show_default=True)
@click.option("--max-tokens", type=click.IntRange(2), default=256, show_default=True)
@click.option("--drafter", default="portfolio", show_default=True)
@click.option("--temperature", type=float, default=0.0, show_default=True)
@click.option("--only", type=click.IntRange(1), default=30, show_default=True, help="The first so many.")
def main(model: str, threads: int | None, rounds: int, only: int, **arguments: Any) -> None:
    """A line for each schema on stderr, and one JSON document on stdout."""
    try:
        lm = load(model, threads=threads)
        tasks = [Task(**json.loads(line)) for line in _FILE.read_text().splitlines()][:only]
        document = measure(lm, tasks, rounds, arguments | {"seed": 1})
    except InputError as error:
        raise click.ClickException(str(error)) from None
    click.echo(json.dumps(document, indent=1))
    click.get_current_context().exit(0 if document["identical"] else 1)


def measure(lm: LanguageModel, tasks: list[Task], rounds: int, arguments: dict[str, Any]) -> dict[str, Any]:
    """All tasks; the first is run once before, so that nothing is loaded within a measurement."""
    lm.generate(tasks[0].prompt, schema=tasks[0].schema, **arguments | {"max_tokens": 8})
    found = [_one(lm, task, rounds, arguments) for task in tasks]
    comparisons, masks = [pair[0] for pair in found], [pair[1] for pair in found]
    plain_pass = median(
        each.plain[0].stats.forward_seconds / each.plain[0].stats.num_passes for each in comparisons
    )
    seconds = [each for mask in masks for each in mask.seconds]
    forced = [each for mask in masks for each in mask.forced]
    ratios = [each.ratio for each in comparisons if each.ratio is not None]
    ends = [each.plain[0].finish_reason for each in comparisons]
    return {
        "model": lm.name,
        "identical": all(each.identical for each in comparisons),
        "ratio": _total_ratio(comparisons),
        "median_ratio": median(ratios),
        "lowest_ratio": min(ratios),
        "num_tokens": len(forced),
        "share_free": 1.0 - float(np.mean(forced)),
        "complete": ends.count("stop") + ends.count("eos"),
        "plain_pass_seconds": plain_pass,
        "mean_mask_seconds": float(np.mean(seconds)),
        "mask_share": float(np.mean(seconds)) / plain_pass,
    }


def _one(lm: LanguageModel, task: Task, rounds: int, arguments: dict[str, Any]) -> tuple[Comparison, Masks]:
    comparison = compare(
        lm,
        task.prompt,
        arguments | {"schema": task.schema},
        num_rounds=rounds,
        watch=lambda plain, chunk: None,
    )
    generation = comparison.plain[0]
    masks = _masks(lm, task, generation)
    stats = comparison.speculative[0].stats
    say(
        f"{task.id:9} {comparison.ratio or 0:5.2f}x  {comparison.verdict}, {generation.finish_reason}, "
        f"free {1 - np.mean(masks.forced):.0%}, tokens per step {stats.tau or 0:.2f}, "
        f"alpha {stats.alpha or 0:.2f}"
    )
    return comparison, masks


def _masks(lm: LanguageModel, task: Task, generation: Generation) -> Masks:
    """The masks of an answer, computed again one by one."""
    grammar = Grammar("json_schema", json.dumps(task.schema))
    constraint = constraint_for(grammar, lm.tokenizer, lm.info.vocab_size, 0)
    history = np.array(generation.token_ids, np.int32)
    found = Masks([], [])
    for place, token_id in enumerate(generation.token_ids):
        found.forced.append(bool(constraint.forced(1)))
        started = perf_counter()
        constraint.mask(history[:place])
        constraint.commit(token_id)
        found.seconds.append(perf_counter() - started)
    return found


def _total_ratio(comparisons: list[Comparison]) -> float:
    """All tokens over all seconds, guessed ahead and plain: medians over the rounds."""
    plain = sum(each.num_tokens / (each.plain_tokens_per_second or np.inf) for each in comparisons)
    ours = sum(each.num_tokens / (each.tokens_per_second or np.inf) for each in comparisons)
    return plain / ours


if __name__ == "__main__":
    main()

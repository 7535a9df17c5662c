"""`python -m benchmarks.acceptance_rules`: how often guesses are kept, by shared noise or the classic rule.

Counts only; no times are measured. Two figures for each rule:

counted: accepted / tested guesses of real generations, at a fixed gamma.
expected: at every place of one text that the target wrote, from the target's distribution p and the draft
model's q, both after the filters. Classic rule: sum over x of min(p, q). Shared Gumbel noise: sum over x of
1 / sum over y of max(p(y) / p(x), q(y) / q(x)): both sides pick x if its exponential clock rings before all
others at both speeds. (Leviathan, Kalman, Matias 2023; Daliri, Musco, Suresh 2024: shared noise keeps at
least (1 - t) / (1 + t), t being the total variation distance.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import click
import numpy as np

from benchmarks.peers.common import markdown, say
from guessahead.core import sampling
from guessahead.core.rejection import ACCEPTANCES, IDENTICAL, REJECTION
from guessahead.errors import InputError
from guessahead.measure.bench.drafters import SAMPLED
from guessahead.measure.bench.workload import Task, default_tasks, select
from guessahead.model import LanguageModel, load
from guessahead.protocols import Engine, Rows
from guessahead.types import EMPTY_IDS, ChoiceContext, Float64, Int32, SamplingParams

_TASKS: Final = "code-lru,json-users,edit-types,sum-reef,qa-sky,math-train,trans-de,story-light"
_ROWS: Final = 16  # of a pass along a text


@dataclass(frozen=True, slots=True)
class Counts:
    """Of one rule. expected: its acceptance at each place of the texts."""

    num_tested: int
    num_accepted: int
    tau: float
    expected: Float64


@click.command()
@click.option("-m", "--model", required=True)
@click.option("--draft-model", help="Guesses; without one, the target's own 4-bit copy does (self-q4).")
@click.option("--only", default=_TASKS, show_default=True, help="Prompts of the workload, by id or category.")
@click.option("--max-tokens", type=click.IntRange(2), default=128, show_default=True)
@click.option("--gamma", type=click.IntRange(1), default=4, show_default=True)
@click.option("--threads", type=int)
def main(model: str, draft_model: str | None, only: str, threads: int | None, **values: Any) -> None:
    """Alpha by both rules, at temperature 0.8 and top-p 0.95. The table is Markdown, on stdout."""
    try:
        lm = load(model, threads=threads)
        second = None if draft_model is None else load(draft_model, threads=threads)
        tasks = select(default_tasks(), only.split(","))
        found = _measure(lm, second, tasks, values["max_tokens"], values["gamma"])
    except InputError as error:
        raise click.ClickException(str(error)) from None
    click.echo(markdown(["rule", "tested", "alpha counted", "tau", "alpha expected"], _table(found)))
    gap = found[REJECTION].expected - found[IDENTICAL].expected
    error = 2 * gap.std() / np.sqrt(len(gap))
    click.echo(f"\nExpected at the same places, rejection less identical: {gap.mean():.3f} ± {error:.3f}.")


def _table(found: dict[str, Counts]) -> list[list[str]]:
    """One row a rule; errors are two standard errors, places taken as independent."""
    rows = []
    for rule, counts in found.items():
        alpha = counts.num_accepted / counts.num_tested
        spread = 2 * np.sqrt(alpha * (1 - alpha) / counts.num_tested)
        places = counts.expected
        error = 2 * places.std() / np.sqrt(len(places))
        expected = f"{places.mean():.3f} ± {error:.3f} ({len(places)} places)"
        rows.append(
            [rule, str(counts.num_tested), f"{alpha:.3f} ± {spread:.3f}", f"{counts.tau:.2f}", expected]
        )
    return rows


def _measure(
    lm: LanguageModel, second: LanguageModel | None, tasks: list[Task], max_tokens: int, gamma: int
) -> dict[str, Counts]:
    drafter: dict[str, Any] = {"drafter": "self-q4"}
    if second is not None:
        drafter = {"drafter": "draft-model", "draft_model": second}
    make_engine = lm.runner.resources().at_precision
    assert make_engine is not None
    draft_engine = make_engine("Q4_1") if second is None else second.runner.engine
    counted = {rule: np.zeros(4) for rule in ACCEPTANCES}  # tested, accepted, tokens, passes
    expected: dict[str, list[float]] = {rule: [] for rule in ACCEPTANCES}
    for task in tasks:
        for rule in ACCEPTANCES:
            run = lm.generate(
                task.prompt,
                acceptance=rule,
                max_tokens=max_tokens,
                gamma=gamma,
                trace=True,
                **drafter,
                **SAMPLED,
            )
            stats = run.stats
            counted[rule] += [stats.num_tested, stats.num_accepted, stats.num_decoded, stats.num_passes]
            if rule == IDENTICAL:
                assert run.trace is not None
                prompt_ids = np.array(run.trace["prompt_token_ids"], np.int32)
                text = np.concatenate([prompt_ids, np.array(run.token_ids, np.int32)])
        sides = (
            _laws(each, text, len(prompt_ids), lm.tokenizer.eos_ids)
            for each in (lm.runner.engine, draft_engine)
        )
        for p, q in zip(*sides, strict=True):
            size = min(len(p), len(q))  # one vocabulary may be padded further than the other
            expected[REJECTION].append(float(np.minimum(p[:size], q[:size]).sum()))
            expected[IDENTICAL].append(_agreement(p[:size], q[:size]))
        places = len(text) - len(prompt_ids)
        means = " ".join(f"{rule} {np.mean(expected[rule][-places:]):.3f}" for rule in ACCEPTANCES)
        say(f"{task.prompt_id}: {places} tokens, expected {means}; counted so far {_so_far(counted)}")
    return {
        rule: Counts(int(tested), int(accepted), tokens / passes, np.array(expected[rule]))
        for rule, (tested, accepted, tokens, passes) in counted.items()
    }


def _so_far(counted: dict[str, Float64]) -> str:
    return " ".join(f"{rule} {counts[1]:.0f}/{counts[0]:.0f}" for rule, counts in counted.items())


def _laws(engine: Engine, text: Int32, num_prompt: int, eos_ids: tuple[int, ...]) -> Iterator[Float64]:
    """The distribution after each token of the text from the last one of the prompt on."""
    params = SamplingParams(**SAMPLED)
    sequence = engine.new_sequence()
    try:
        for place in range(num_prompt, len(text), _ROWS):
            ahead = text[place : min(place + _ROWS, len(text)) - 1]
            fresh = text[sequence.length : place]
            choice = ChoiceContext(params, text[:place], num_prompt, eos_ids, forced=ahead)
            last = len(fresh) - 1
            rows = Rows(
                sequence, np.concatenate([fresh, ahead]), context=choice, choose_from=last, want_logits="path"
            )
            [output] = engine.forward([rows])
            sequence.keep(np.arange(last + 1, last + 1 + len(ahead), dtype=np.int32))
            plain = replace(choice, forced=EMPTY_IDS)
            for depth in range(len(ahead) + 1):
                assert output.logits is not None
                yield sampling.probabilities(output.logits[last + depth], plain, ahead[:depth])
    finally:
        sequence.close()


def _agreement(p: Float64, q: Float64) -> float:
    """How often the same Gumbel noise picks the same token from p and from q."""
    either = np.flatnonzero((p > 0.0) | (q > 0.0))
    p, q = p[either], q[either]
    return sum(
        float(1.0 / np.maximum(p / p[x], q / q[x]).sum()) for x in np.flatnonzero((p > 0.0) & (q > 0.0))
    )


if __name__ == "__main__":
    main()

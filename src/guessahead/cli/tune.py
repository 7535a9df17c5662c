"""`guessahead tune`: measure this machine, save the best setting."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from guessahead.cli import measuring, streams
from guessahead.cli.base import debug_option
from guessahead.cli.outputs import check_folder
from guessahead.errors import ParameterError, PromptError
from guessahead.models.catalogue import DEFAULT_MODEL

if TYPE_CHECKING:
    from guessahead.controller.pass_curve import PassCurve
    from guessahead.controller.saved import Tuned
    from guessahead.measure.tune import Answer, Candidate
    from guessahead.model import LanguageModel

_Bar = Callable[[str], Callable[[int, int], None]]


@click.command("tune")
@click.option("-m", "--model", default=DEFAULT_MODEL, show_default=True, metavar="NAME|FILE")
@click.option("--draft-model", metavar="NAME|FILE", help="A second, smaller model to try as draft model.")
@click.option(
    "--prompts",
    type=click.Path(path_type=Path),
    metavar="FILE.jsonl",
    help="Prompts similar to yours: lines with id, category and prompt.  [default: a mixture]",
)
@click.option("--num-prompts", type=click.IntRange(1), default=6, show_default=True, help="How many.")
@click.option(
    "--max-tokens",
    type=click.IntRange(4),
    default=64,
    show_default=True,
    help="Tokens per answer.",
)
@click.option(
    "--drafter",
    "drafters",
    multiple=True,
    help="Try this one; can be repeated.  [default: all but self-*]",
)
@click.option(
    "--gamma", type=click.IntRange(1, 63), default=8, show_default=True, help="Largest draft tried."
)
@click.option("--threads", type=click.IntRange(1), help="Use this number.  [default: try some]")
@click.option("--show", is_flag=True, help="Print the saved setting; measure nothing.")
@click.option("--forget", is_flag=True, help="Remove the saved setting; measure nothing.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@debug_option
def command(model: str, draft_model: str | None, show: bool, forget: bool, **values: Any) -> None:
    """Find the best setting for a model on this machine, and save it as the default.

    Measures the costs of passes and guesses, how often each drafter is right on the model's own answers, and
    the fastest number of threads. `generate` and `chat` then use the drafter, the threads and the maximum
    draft from it by default. No setting changes any text. The file is tuned.json in the user cache;
    GUESSAHEAD_TUNED sets another path.
    """
    from guessahead.controller import saved as tuned
    from guessahead.models.load import identity

    streams.require("stdout")
    names = identity(model), None if draft_model is None else identity(draft_model)
    if show and forget:
        raise ParameterError("--show and --forget cannot be used together")
    if forget:
        there = tuned.forget(*names)
        click.echo("removed" if there else "nothing was saved", err=True)
        return
    setting = tuned.load(*names)
    candidates: Sequence[Candidate] = ()
    if not show:
        check_folder(tuned.path().parent)
        setting, candidates = _tune(model, draft_model, values)
        tuned.save(*names, setting)
    if setting is None:
        raise ParameterError(f"nothing is saved for {tuned.key(*names)}")
    if values["as_json"]:
        click.echo(json.dumps({"key": tuned.key(*names), **asdict(setting)}))
    else:
        _print(setting, candidates)
        click.echo(f"{'kept in' if show else 'saved in'} {tuned.path()}", err=True)


def _tune(model: str, draft_model: str | None, values: dict[str, Any]) -> tuple[Tuned, Sequence[Candidate]]:
    from guessahead.controller.saved import Tuned
    from guessahead.engines.machine import package_version
    from guessahead.measure.bench.lock import alone
    from guessahead.measure.formulas import VerifyCurve
    from guessahead.measure.tune import best, largest_draft
    from guessahead.model import load

    prompts = _prompts(values["prompts"], values["num_prompts"])
    with alone(lambda line: click.echo(line, err=True)), measuring.progress_bar() as bar:
        lm, passes, threads = _fastest(model, values["threads"], bar)
        second = None if draft_model is None else load(draft_model, threads=threads)
        candidates = _candidates(lm, second, passes, prompts, values, bar)
    top = best(candidates)
    known = None if top is None or top.found is None or top.expected is None else top
    expected = known and known.expected
    return Tuned(
        drafter="none" if known is None else known.drafter,
        gamma=expected.gamma if expected else 0,
        max_draft=largest_draft(VerifyCurve(passes.v)),
        threads=threads,
        alpha=known.found.alpha if known and known.found else None,
        tau=expected.tau if expected else 1.0,
        speedup=expected.speedup if expected else 1.0,
        c=known.costs.c if known and known.costs else 0.0,
        v={str(rows): v for rows, v in passes.v.items()},
        plain_tokens_per_second=1.0 / passes.seconds[1],
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        version=package_version(),
    ), candidates


def _prompts(path: Path | None, wanted: int) -> list[tuple[str, str]]:
    """Prompts as (name, prompt), spread over the file, so that all its categories occur."""
    from guessahead.measure.bench.workload import default_tasks, read_tasks

    tasks = default_tasks() if path is None else read_tasks(path)
    stride = max(len(tasks) / wanted, 1.0)
    chosen = [tasks[int(index * stride)] for index in range(min(wanted, len(tasks)))]
    return [(task.prompt_id, task.prompt) for task in chosen]


def _fastest(model: str, threads: int | None, bar: _Bar) -> tuple[LanguageModel, PassCurve, int]:
    """The model with the number of threads for which one-row passes are fastest."""
    from guessahead.controller.pass_curve import FINE_ROUNDS, FINE_SIZES, measure_passes
    from guessahead.engines.machine import usable_cores
    from guessahead.model import load
    from guessahead.runners.solo import solo

    cores = usable_cores()
    counts = [threads] if threads else sorted({cores, max(cores // 2, 1)}, reverse=True)
    tried = []
    for count in counts:
        lm = load(model, threads=count)
        engine, told = solo(lm.runner).engine, bar(f"{count} threads")
        passes = measure_passes(engine, sizes=FINE_SIZES, num_rounds=FINE_ROUNDS, progress=told)
        tried.append((lm, passes, count))
    return min(tried, key=lambda each: each[1].seconds[1])


def _candidates(
    lm: LanguageModel,
    draft_model: LanguageModel | None,
    passes: PassCurve,
    prompts: Sequence[tuple[str, str]],
    values: dict[str, Any],
    bar: _Bar,
) -> list[Candidate]:
    from guessahead.drafters import registry
    from guessahead.measure.tune import measure_drafter, plain_answers
    from guessahead.runners.solo import solo

    answers: list[Answer] = plain_answers(lm, prompts, values["max_tokens"], bar("plain answers"))
    if not answers:
        raise PromptError("no answer had two tokens or more, so there is nothing to guess")
    found = []
    for name in values["drafters"] or _usual_drafters(draft_model is not None):
        kind = registry.find(name)
        second = draft_model if kind.takes_draft_engine else None
        checked = measuring.checked_options({"drafter": name, "drafter_options": None}, lm, second)
        candidate = measure_drafter(
            name,
            lambda checked=checked: measuring.make_drafter(lm, checked),  # type: ignore[misc]
            solo(lm.runner).engine,
            answers,
            passes,
            gamma=values["gamma"],
            eos_ids=lm.tokenizer.eos_ids,
            progress=bar(name),
        )
        found.append(candidate)
    return found


def _usual_drafters(with_model: bool) -> list[str]:
    """All drafters that can run and that do not write a copy of the target into the cache."""
    from guessahead.drafters import registry
    from guessahead.drafters.self_draft import SelfDraft

    kinds = {name: registry.find(name) for name in registry.names() if name != "none"}
    return [
        name
        for name, kind in kinds.items()
        if not issubclass(kind, SelfDraft) and (with_model or not kind.needs_draft_engine)
    ]


def _print(setting: Tuned, candidates: Sequence[Candidate]) -> None:
    curve = ", ".join(f"v({rows}) = {v:.2f}" for rows, v in setting.v.items() if rows in ("2", "5", "8"))
    click.echo(f"threads   {setting.threads}: {setting.plain_tokens_per_second:.1f} tokens/s plain; {curve}")
    for each in candidates:
        if each.found is None or each.costs is None or each.expected is None:
            click.echo(f"{each.drafter}: not measured ({each.problem})")
            continue
        alpha = "-" if each.found.alpha is None else f"{each.found.alpha:.2f}"
        gain = f"speed-up {each.expected.speedup:.2f} with at most {each.expected.gamma} guesses per step"
        click.echo(
            f"{each.drafter}: alpha {alpha}, guesses in {each.found.share:.0%}, c {each.costs.c:.3f}, {gain}"
        )
    if setting.drafter == "none":
        click.echo("drafter   none: guessing does not pay for this model and these prompts")
        return
    gain = f"speed-up {setting.speedup:.2f} expected"
    click.echo(f"drafter   {setting.drafter}, with {setting.gamma} guesses per step: {gain}")
    click.echo(f"draft     at most {setting.max_draft} guesses per step can pay on this machine")

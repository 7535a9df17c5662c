"""`guessahead bench`: every drafter against plain decoding; also the group of `passes` and `kernels`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from guessahead.cli import options
from guessahead.cli.base import EXIT_DIFFERENT, Commands
from guessahead.cli.bench_common import (
    measuring_options,
    names,
    num_threads,
    peak_meter,
    show_progress,
    timing,
    write,
)
from guessahead.cli.outputs import Output
from guessahead.core.rejection import ACCEPTANCES, IDENTICAL, REJECTION

if TYPE_CHECKING:
    from guessahead.model import LanguageModel

_CONTEXT_OF_V: Final = 100
_ROUNDS_OF_V: Final = 9
_SETTINGS: Final = ("max_tokens", "gamma", "sampled", "acceptance", "fixed_length")


@click.group(
    "bench",
    cls=Commands,
    commands_by_name={
        "passes": ("guessahead.cli.bench_passes", "Whole passes of m rows, against the roofline."),
        "kernels": ("guessahead.cli.bench_kernels", "Products of one matrix with m rows, by format."),
    },
    invoke_without_command=True,
)
@options.model_options
@click.option("--drafters", callback=names, metavar="A,B", help="Drafters.  [default: all that can run]")
@click.option(
    "--prompts",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.jsonl",
    help="File of objects with id, category and prompt, one per line.  [default: 24 built-in prompts]",
)
@click.option("--only", callback=names, metavar="A,B", help="Only prompts with these ids or categories.")
@click.option(
    "--max-tokens",
    type=click.IntRange(min=1),
    default=96,
    show_default=True,
    help="Maximum tokens of an answer.",
)
@click.option(
    "--gamma",
    type=click.IntRange(min=0),
    help="Guesses per step.  [default: chosen in each step]",
)
@click.option("--sampled", is_flag=True, help="Temperature 0.8, top-p 0.95, seed 1, instead of greedy.")
@click.option(
    "--acceptance",
    type=click.Choice(ACCEPTANCES),
    default=IDENTICAL,
    show_default=True,
    help="rejection: with --sampled, accept a model's guesses by rejection sampling; those texts differ and "
    "are not compared.",
)
@click.option("--fixed-length", is_flag=True, help="Every answer has --max-tokens tokens.")
@measuring_options(rounds=3)
def command(json_file: Output, **values: Any) -> None:
    """Measure every drafter against plain decoding, interleaved, prompt by prompt.

    Tables go to stderr, at the end one JSON document to stdout. The exit code is 1 if any token differs.
    """
    context = click.get_current_context()
    if context.invoked_subcommand is not None:
        _refuse_options(context)
        return
    json_file.check()
    from guessahead.cli.bench_tables import print_drafters

    lm, draft_model = options.load_model(values), options.load_draft_model(values)
    document = _measure(lm, draft_model, values)
    print_drafters(document)
    write(document, lm.info.isa, num_threads(values), json_file)
    counts = document["identical"]
    context.exit(0 if counts["num_identical"] == counts["num_rows"] else EXIT_DIFFERENT)


def _measure(lm: LanguageModel, draft_model: LanguageModel | None, values: dict[str, Any]) -> dict[str, Any]:
    from guessahead.controller.controller import MAX_NODES
    from guessahead.measure.bench import drafters, variants
    from guessahead.measure.bench.passes import DEFAULT_ROWS, PassTimes, identical, time_passes
    from guessahead.measure.bench.workload import default_tasks, read_tasks, select

    given = default_tasks() if values["prompts"] is None else read_tasks(values["prompts"])
    tasks = select(given, values["only"])
    chosen = values["drafters"] or variants.runnable_drafters(lm, draft_model)
    shared = _shared_arguments(values)
    compared = {
        name: shared | variants.arguments_of(name, lm, draft_model)
        for name in dict.fromkeys((variants.PLAIN, *chosen))
    }
    by_rejection = values["sampled"] and values["acceptance"] == REJECTION
    sampled = variants.sampled_drafters(compared, lm, draft_model) if by_rejection else frozenset[str]()
    most = 1 + (MAX_NODES if values["gamma"] is None else values["gamma"])
    rows = [m for m in range(1, most + 1) if m in DEFAULT_ROWS or m == most]
    at = min(_CONTEXT_OF_V, lm.info.context_length // 2)
    with timing():
        meter = peak_meter(lm.info.isa, num_threads(values))
        found = time_passes(
            lm,
            contexts=[at],
            rows=rows,
            num_rounds=_ROUNDS_OF_V,
            between=meter.measure,
            sample=PassTimes.alternate,
        )
        report = drafters.run(
            lm, tasks, compared, num_rounds=values["repeat"], progress=show_progress, sampled=sampled
        )
        meter.measure()
    times = found[at]
    passes = [
        {"rows": m, "ms": times.alternating_seconds(m) * 1e3, "v": times.alternating_v(m)} for m in times.rows
    ]
    return {
        **report.to_dict({int(entry["rows"]): entry["v"] for entry in passes}),
        "model": lm.name,
        "draft_model": draft_model.name if draft_model is not None else None,
        **{name: values[name] for name in _SETTINGS},
        "num_rounds": values["repeat"],
        "peaks": meter.to_dict(),
        "bytes_per_pass": lm.info.bytes_per_pass,
        "passes": {"context": at, "identical": identical(found), "rows": passes},
    }


def _shared_arguments(values: dict[str, Any]) -> dict[str, Any]:
    """The arguments that all drafters share."""
    from guessahead.measure.bench.drafters import SAMPLED

    shared: dict[str, Any] = {name: values[name] for name in ("max_tokens", "acceptance")}
    shared["gamma"] = "auto" if values["gamma"] is None else values["gamma"]
    if values["fixed_length"]:
        shared["min_tokens"] = values["max_tokens"]
    return shared | (SAMPLED if values["sampled"] else {})


def _refuse_options(context: click.Context) -> None:
    """Raise UsageError for options before a sub-command, which would be ignored."""
    for parameter in context.command.params:
        given = parameter.name and context.get_parameter_source(parameter.name) is not ParameterSource.DEFAULT
        if given and parameter.name != "debug":
            name = context.invoked_subcommand
            raise click.UsageError(f"{parameter.opts[0]} must come after {name!r}", context)

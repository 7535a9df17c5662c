"""`guessahead generate`: one prompt, one answer."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from guessahead.cli import options, streams
from guessahead.cli.base import EXIT_DIFFERENT, debug_option
from guessahead.cli.outputs import Output, output_file
from guessahead.errors import ParameterError

if TYPE_CHECKING:
    from guessahead.cli.show import Answer
    from guessahead.measure.bench.comparison import Comparison
    from guessahead.model import LanguageModel
    from guessahead.types import Chunk, Generation


@click.command("generate")
@click.argument("prompt")
@options.model_options
@options.generation_options
@click.option("--compare", is_flag=True, help="Also run plain decoding and compare the tokens.")
@click.option("--repeat", type=click.IntRange(min=1), help="Rounds of --compare.  [default: 1]")
@click.option("--show-draft", is_flag=True, help="Mark accepted guesses, by colour or brackets.")
@click.option("--explain", is_flag=True, help="Print, for each step, the reasons for its guesses.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout, no figures on stderr.")
@click.option("--logprobs", type=int, help="Log-probabilities with this many alternatives, in --json.")
@click.option(
    "--trace",
    "trace_file",
    callback=output_file,
    metavar="FILE.json",
    help="Write every step (draft, rows, accepted path, times), for `guessahead report`.",
)
@debug_option
def command(prompt: str, trace_file: Output | None, **values: Any) -> None:
    """Answer PROMPT ("-" reads it from stdin), guessing tokens ahead.

    The answer streams to stdout, the figures go to stderr. The text is the same as with plain decoding
    (--drafter none) and the same settings and seed, unless --acceptance is rejection.
    """
    _check_combination(values)
    streams.require("stdout")
    text = options.read_prompt(prompt, raw=bool(values["raw"]))
    lm = options.load_model(values)
    arguments = options.generation_arguments(values, options.load_draft_model(values))
    if values["logprobs"] is not None:
        arguments["logprobs"] = values["logprobs"]
    if trace_file is not None or values["explain"]:
        arguments["trace"] = True
    run = _compare if values["compare"] else _generate
    generation, comparison = run(lm, text, arguments, values)
    if values["explain"] and generation.trace is not None:
        from guessahead.cli.explain import print_explanation

        print_explanation(lm, generation.trace)
    if trace_file is not None:
        from guessahead.report.trace import trace_document

        trace_file.write(json.dumps(trace_document(lm, generation, comparison), indent=1) + "\n")
    identical = comparison is None or comparison.identical
    click.get_current_context().exit(0 if identical else EXIT_DIFFERENT)


def _generate(
    lm: LanguageModel, prompt: str, arguments: dict[str, Any], values: dict[str, Any]
) -> tuple[Generation, None]:
    from guessahead.cli.document import generation_document
    from guessahead.cli.show import generation_figures, print_figures

    if values["as_json"]:
        generation = lm.generate(prompt, **arguments)
        _print_json(generation_document(lm, generation))
        return generation, None
    answer = _answer(lm, values)
    with lm.stream(prompt, **arguments) as stream:
        for chunk in stream:
            answer.show(chunk)
    answer.finish()
    print_figures([*_legend(answer), *generation_figures(stream.result), *_seed(stream.result, values)])
    return stream.result, None


def _compare(
    lm: LanguageModel, prompt: str, arguments: dict[str, Any], values: dict[str, Any]
) -> tuple[Generation, Comparison]:
    """Run plain decoding and guessing; stdout gets one text, that of guessing."""
    from guessahead.cli.document import comparison_document
    from guessahead.cli.show import comparison_figures, print_figures
    from guessahead.measure.bench.comparison import compare

    answer = None if values["as_json"] else _answer(lm, values)
    waiting = []  # what erases the note
    if answer is not None and sys.stderr.isatty():
        click.echo("plain decoding first ...", nl=False, err=True)
        waiting.append("\r\x1b[K")

    def watch(plain: bool, chunk: Chunk) -> None:
        if plain or answer is None:
            return
        if waiting:
            click.echo(waiting.pop(), nl=False, err=True)
        answer.show(chunk)

    comparison = compare(
        lm,
        prompt,
        arguments,
        num_rounds=values["repeat"] or 1,
        watch=watch,
    )
    if answer is None:
        _print_json(comparison_document(lm, comparison))
    else:
        answer.finish()
        seed = _seed(comparison.speculative[0], values)
        print_figures([*_legend(answer), *seed, *comparison_figures(comparison)])
    return comparison.speculative[0], comparison


def _check_combination(values: dict[str, Any]) -> None:
    """Raise ParameterError for options that would be ignored."""
    if values["logprobs"] is not None and not values["as_json"]:
        raise ParameterError("--logprobs are shown in --json only: add --json")
    if values["show_draft"] and values["as_json"]:
        raise ParameterError("--show-draft cannot be used with --json; --trace FILE.json records all guesses")
    if values["explain"] and values["as_json"]:
        raise ParameterError("--explain cannot be used with --json; --trace FILE.json has the same, as `why`")
    if values["repeat"] is not None and not values["compare"]:
        raise ParameterError("--repeat needs --compare")


def _answer(lm: LanguageModel, values: dict[str, Any]) -> Answer:
    from guessahead.cli.show import Answer, MarkedAnswer

    if not values["show_draft"]:
        return Answer()
    return MarkedAnswer(lm.tokenizer, values["stop"], values["min_tokens"] or 0)


def _legend(answer: Answer) -> list[tuple[str, str]]:
    from guessahead.cli.show import MarkedAnswer

    return [("source", answer.legend())] if isinstance(answer, MarkedAnswer) else []


def _seed(generation: Generation, values: dict[str, Any]) -> list[tuple[str, str]]:
    """The line with the seed, if it was not given and the answer was sampled."""
    shown = values["temperature"] and values["seed"] is None
    return [("seed", f"{generation.seed} (--seed repeats this answer)")] if shown else []


def _print_json(document: dict[str, Any]) -> None:
    click.echo(json.dumps(document, allow_nan=False))

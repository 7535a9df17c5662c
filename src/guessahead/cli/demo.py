"""`guessahead demo`: the same answers by plain decoding and by guessing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from guessahead.cli import options, streams
from guessahead.cli.base import EXIT_DIFFERENT, debug_option
from guessahead.errors import ParameterError

if TYPE_CHECKING:
    from guessahead.cli.show import Answer
    from guessahead.measure.bench.comparison import Comparison
    from guessahead.model import LanguageModel
    from guessahead.types import Chunk, Generation

_PAIR: Final = {"model": "qwen2.5-coder-1.5b", "draft_model": "qwen2.5-coder-0.5b"}


@dataclass(frozen=True, slots=True)
class Task:
    """A prompt of data/workload.jsonl and how to sample its answer."""

    prompt_id: str
    temperature: float = 0.0

    @property
    def settings(self) -> dict[str, Any]:
        return {"temperature": self.temperature, "top_p": 0.95, "seed": 1} if self.temperature else {}

    @property
    def title(self) -> str:
        return f"{self.prompt_id} (sampled)" if self.temperature else self.prompt_id


# From text that repeats itself to text that does not.
_TASKS: Final = (
    Task("json-users"),
    Task("edit-rename"),
    Task("sum-lease"),
    Task("qa-sky"),
    Task("story-light", temperature=0.8),
)
_PAIR_TASKS: Final = (Task("code-lru"), Task("edit-types", temperature=0.8))


@click.command("demo")
@options.model_options
@click.option("--pair", is_flag=True, help=f"Use {_PAIR['model']} and {_PAIR['draft_model']}.")
@click.option("--max-tokens", type=int, default=128, show_default=True, help="Maximum tokens of each answer.")
@click.option(
    "--repeat",
    type=click.IntRange(min=1),
    help="Rounds; the first is shown, all are timed.  [default: 3; with --pair 1]",
)
@click.option("--gamma", type=int, help="Guesses per step.  [default: chosen in each step]")
@debug_option
def command(pair: bool, repeat: int | None, **values: Any) -> None:
    """Generate some answers by plain decoding and by guessing; compare tokens and times.

    One of them is sampled, the others are greedy. The exit code is 1 if any token differs.
    """
    from guessahead.measure.bench.comparison import compare
    from guessahead.measure.bench.workload import default_tasks

    streams.require("stdout")
    if pair:
        if values["model"] or values["draft_model"]:
            raise ParameterError("--pair sets both models: leave out --model and --draft-model")
        values |= _PAIR
    lm, draft_model = options.load_model(values), options.load_draft_model(values)
    arguments: dict[str, Any] = {"max_tokens": values["max_tokens"]}
    if values["gamma"] is not None:
        arguments["gamma"] = values["gamma"]
    if draft_model is not None:
        arguments["draft_model"] = draft_model
    prompts = {entry.prompt_id: entry.prompt for entry in default_tasks()}
    comparisons = []
    tasks = _PAIR_TASKS if pair else _TASKS
    num_rounds = repeat or (1 if pair else 3)
    for task in tasks:
        prompt = prompts[task.prompt_id]
        watch = _Watch(task, prompt, lm)
        settings = arguments | task.settings
        comparisons.append(compare(lm, prompt, settings, num_rounds=num_rounds, watch=watch))
        watch.finish(comparisons[-1])
    _print_table(tasks, comparisons)
    _print_totals(lm.name, comparisons)
    identical = all(comparison.identical for comparison in comparisons)
    click.get_current_context().exit(0 if identical else EXIT_DIFFERENT)


class _Watch:
    """Prints both answers of one task under headings, as they are generated."""

    def __init__(self, task: Task, prompt: str, lm: LanguageModel) -> None:
        from guessahead.cli.show import styled

        self._lm = lm
        self._answer: Answer | None = None
        self._plain = True
        click.echo(f"\n{_bold('## ' + task.title)}\n{styled(_shortened(prompt), dim=True)}")

    def __call__(self, plain: bool, chunk: Chunk) -> None:
        if self._answer is None or plain is not self._plain:
            self._begin(plain)
        assert self._answer is not None
        self._answer.show(chunk)

    def finish(self, comparison: Comparison) -> None:
        from guessahead.cli.show import rate

        self._end()
        plain, ours = comparison.plain_tokens_per_second, comparison.tokens_per_second
        ratio = "" if comparison.ratio is None else f", ratio {comparison.ratio:.2f}"
        click.echo(_bold(f"{rate(plain)} plain, {rate(ours)} guessing ahead{ratio}; {comparison.verdict}"))

    def _begin(self, plain: bool) -> None:
        from guessahead.cli.show import Answer, MarkedAnswer

        self._end()
        self._plain = plain
        self._answer = Answer() if plain else MarkedAnswer(self._lm.tokenizer)
        click.echo(_bold("-- plain" if plain else "-- guessing ahead (accepted guesses are marked)"))

    def _end(self) -> None:
        if self._answer is not None:
            self._answer.finish()


def _print_table(tasks: Sequence[Task], comparisons: Sequence[Comparison]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("answer")
    for heading in ("tokens", "plain", "ahead", "ratio", "alpha", "tau", "identical"):
        table.add_column(heading, justify="right")
    for task, comparison in zip(tasks, comparisons, strict=True):
        stats = comparison.speculative[0].stats
        table.add_row(
            task.title,
            str(comparison.num_tokens),
            _number(comparison.plain_tokens_per_second, 1),
            _number(comparison.tokens_per_second, 1),
            _number(comparison.ratio, 2),
            _number(stats.alpha, 2),
            _number(stats.tau, 2),
            "yes" if comparison.identical else "NO",
        )
    click.echo(_bold("\n## Tokens per second"))
    Console().print(table)


def _print_totals(model: str, comparisons: Sequence[Comparison]) -> None:
    plain = _Total([run for comparison in comparisons for run in comparison.plain])
    ours = _Total([run for comparison in comparisons for run in comparison.speculative])
    num_tokens = sum(comparison.num_tokens for comparison in comparisons)
    num_identical = sum(comparison.num_identical for comparison in comparisons)
    same = all(comparison.identical for comparison in comparisons)
    drafter = comparisons[0].speculative[0].stats.drafter
    alpha = _over(ours.sum(lambda g: g.stats.num_accepted), ours.sum(lambda g: g.stats.num_tested))
    num_rounds = len(comparisons[0].plain)
    saved = int(ours.sum(lambda g: g.stats.num_sweeps_saved)) // num_rounds
    rounds = f", {num_rounds} rounds" if num_rounds > 1 else ""
    click.echo(f"\n{model}, {len(comparisons)} answers{rounds}")
    for label, total in (("plain", plain), (drafter, ours)):
        gb = f"{_number(total.gb_per_second, 1)} GB/s of weights"
        click.echo(f"  {label:14} {_number(total.tokens_per_second, 1):>6} tokens/s   {gb}")
    click.echo(f"  ratio          {_number(_over(ours.tokens_per_second, plain.tokens_per_second), 2):>6}")
    click.echo(f"  alpha {_number(alpha, 2)}, tau {_number(ours.tau, 2)}, passes saved {saved}")
    click.echo(_bold(f"  identical: {'yes' if same else 'NO'} ({num_identical}/{num_tokens} tokens)"))


@dataclass(frozen=True, slots=True)
class _Total:
    """Rates over several generations."""

    generations: Sequence[Generation]

    def sum(self, value: Callable[[Generation], float]) -> float:
        return sum(map(value, self.generations))

    @property
    def tokens_per_second(self) -> float | None:
        return _over(self.sum(lambda g: g.stats.num_decoded), self.sum(lambda g: g.stats.decode_seconds))

    @property
    def tau(self) -> float | None:
        return _over(self.sum(lambda g: g.stats.num_decoded), self.sum(lambda g: g.stats.num_passes))

    @property
    def gb_per_second(self) -> float | None:
        num_bytes = self.sum(lambda g: g.stats.bytes_per_pass * g.stats.num_passes)
        return _over(num_bytes / 1e9, self.sum(lambda g: g.stats.forward_seconds))


def _over(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else part / whole


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _shortened(prompt: str) -> str:
    """The prompt as one line of a terminal."""
    line = " ".join(prompt.split())
    return line if len(line) <= 78 else f"{line[:75]}..."


def _bold(text: str) -> str:
    from guessahead.cli.show import styled

    return styled(text, bold=True)

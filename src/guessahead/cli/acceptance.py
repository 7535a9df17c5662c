"""`guessahead acceptance`: acceptance of guesses on given texts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from guessahead.cli import measuring, options, streams
from guessahead.cli.base import debug_option
from guessahead.errors import ParameterError, PromptError
from guessahead.files import read_text

if TYPE_CHECKING:
    from guessahead.measure.formulas import Costs
    from guessahead.measure.text_result import Expectation, TextAcceptance
    from guessahead.model import LanguageModel
    from guessahead.options import GenerateOptions
    from guessahead.types import Int32

EXAMPLES: Final = ("users.json", "twist.txt")
_WORTHWHILE: Final = 1.1  # a speed-up below this is lost in the noise of a shared machine
_BARS: Final = " ▁▂▃▄▅▆▇█"


@click.command("acceptance")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path), metavar="[FILE...]")
@options.model_options
@measuring.drafter_options
@click.option(
    "--gamma", type=click.IntRange(1, 63), default=8, show_default=True, help="Maximum guesses per position."
)
@click.option(
    "--tokens", type=click.IntRange(8), default=400, show_default=True, help="Maximum tokens of a text."
)
@click.option("--guess", metavar="N,N,...", help="Your own estimate: per cent accepted, one number per text.")
@click.option("--ask", is_flag=True, help="Ask for your own estimate before measuring.")
@measuring.sampling_options
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@debug_option
def command(files: tuple[Path, ...], guess: str | None, ask: bool, **values: Any) -> None:
    """Measure how often guesses are right on your texts, and whether guessing pays on this machine.

    Without a FILE, two examples are read: a JSON file and a story. At every position of a text the drafter
    guesses and the model chooses a token (teacher-forced: both always read the text itself). With a
    temperature, a guess counts with its acceptance probability, the sum of min(p, q).
    """
    streams.require("stdout")
    if ask and guess is not None:
        raise ParameterError("--ask and --guess cannot be used together")
    texts = _read(files)
    yours = None if guess is None else _guessed(guess, len(texts))
    lm, draft_model = options.load_model(values), options.load_draft_model(values)
    checked = measuring.checked_options(values, lm, draft_model)
    encoded = {name: _encode(lm, name, text, values["tokens"]) for name, text in texts.items()}
    if ask:
        yours = [_asked(name) for name in texts]
    found, costs = _measure(lm, checked, encoded, values["gamma"])
    results = [_Result(each, cost, values["gamma"]) for each, cost in zip(found, costs, strict=True)]
    if values["as_json"]:
        click.echo(json.dumps(_document(lm, checked, results, yours)))
    else:
        _print(lm, checked, results, yours)


class _Result:
    """The measurement of a text, and the expected speed."""

    def __init__(self, found: TextAcceptance, costs: Costs, gamma: int) -> None:
        from guessahead.measure.text_result import expect

        self.found, self.costs = found, costs
        self.expected: Expectation = expect(found, costs, gamma)

    @property
    def gains(self) -> bool:
        return self.expected.gamma > 0 and self.expected.speedup > 1.0

    @property
    def reason(self) -> str:
        """A sentence: whether guessing pays on this text, and why."""
        from guessahead.measure.formulas import break_even

        found, expected, alpha = self.found, self.expected, self.found.alpha
        if alpha is None:
            return "no gain: the drafter made no guesses"
        right = f"{alpha:.0%} of the tested guesses are right"
        where = f"there is a guess at {found.share:.0%} of the positions"
        if self.gains:
            each = f"{expected.gamma} guess{'es' if expected.gamma > 1 else ''} per step"
            verb = "gains" if expected.speedup >= _WORTHWHILE else "hardly gains"
            return f"{verb}: {where} and {right}; with {each} a pass gives {expected.tau:.2f} tokens"
        needed = break_even(1, self.costs)
        if needed is None:
            return "no gain: a guess and its check take longer than a token, even if all are right"
        return f"no gain: {right}, and at these costs {needed:.0%} are required"


def _read(files: Sequence[Path]) -> dict[str, str]:
    if not files:
        folder = resources.files("guessahead.data").joinpath("examples")
        return {name: folder.joinpath(name).read_text(encoding="utf-8") for name in EXAMPLES}
    texts: dict[str, str] = {}
    for path in files:
        if str(path) in texts:
            raise ParameterError(f"{path} appears twice")
        try:
            texts[str(path)] = read_text(path)
        except OSError as error:
            raise PromptError(f"{path} cannot be read: {error.strerror or error}") from None
        except UnicodeDecodeError as error:
            raise PromptError(f"{path} is not UTF-8 (byte {error.start})") from None
    return texts


def _guessed(text: str, num_texts: int) -> list[float]:
    """ "90,40" -> [0.9, 0.4]."""
    try:
        shares = [float(part) / 100 for part in text.split(",")]
    except ValueError:
        raise ParameterError(f"--guess takes numbers such as 90,40, not {text!r}") from None
    if len(shares) != num_texts:
        raise ParameterError(f"--guess has {len(shares)} numbers for {num_texts} texts")
    if not all(0 <= share <= 1 for share in shares):
        raise ParameterError(f"--guess takes per cent, from 0 to 100, not {text!r}")
    return shares


def _asked(name: str) -> float:
    kind = click.FloatRange(0, 100)
    question = f"How many per cent of the guesses in {name} will be right"
    answer: float = click.prompt(question, type=kind, err=True)
    return answer / 100


def _encode(lm: LanguageModel, name: str, text: str, most: int) -> Int32:
    import numpy as np

    from guessahead.measure.texts import MIN_TOKENS

    token_ids = np.array(lm.tokenizer.encode(text), np.int32)[: min(most, lm.info.context_length)]
    if len(token_ids) < MIN_TOKENS:
        raise PromptError(f"{name} has {len(token_ids)} tokens; at least {MIN_TOKENS} are needed")
    return token_ids


def _measure(
    lm: LanguageModel, checked: GenerateOptions, encoded: dict[str, Int32], gamma: int
) -> tuple[list[TextAcceptance], list[Costs]]:
    from guessahead.controller.pass_curve import FINE_ROUNDS, FINE_SIZES, measure_passes
    from guessahead.measure.formulas import Costs, VerifyCurve
    from guessahead.measure.texts import measure_text
    from guessahead.runners.solo import solo

    engine, draft_model = solo(lm.runner).engine, checked.draft_model
    params = checked.sampling
    if params.seed is None:
        params = replace(params, seed=0)
    found = []
    with measuring.progress_bar() as bar:
        told = bar("the machine")
        passes = measure_passes(engine, sizes=FINE_SIZES, num_rounds=FINE_ROUNDS, progress=told)
        for name, token_ids in encoded.items():
            text = measure_text(
                name,
                token_ids,
                engine=engine,
                drafter=measuring.make_drafter(lm, checked),
                draft_engine=None if draft_model is None else solo(draft_model.runner).engine,
                eos_ids=lm.tokenizer.eos_ids,
                params=params,
                gamma=gamma,
                progress=bar(name),
            )
            found.append(text)
    v = VerifyCurve(passes.v)
    return found, [Costs(text.guess_seconds / passes.seconds[1], v) for text in found]


def _print(
    lm: LanguageModel, checked: GenerateOptions, results: Sequence[_Result], yours: list[float] | None
) -> None:
    how = f"sampled at {checked.temperature:g}" if checked.temperature else "greedy"
    costs = results[0].costs
    curve = ", ".join(f"v({rows}) = {costs.v(rows):.2f}" for rows in (2, 5, 9))
    click.echo(f"{lm.name}, drafter {checked.drafter}, {how}")
    click.echo(f"this machine: c = {costs.c:.3f}, {curve}\n")
    width = max(len(result.found.name) for result in results)
    own = "yours  " if yours else ""
    click.echo(f"{'text':{width}}  tokens  guessed  alpha  {own}  tau  speed-up  best gamma")
    for index, result in enumerate(results):
        found, expected = result.found, result.expected
        guess = f"{yours[index]:>5.2f}  " if yours else ""
        measured = f"{found.num_tokens:>6}  {found.share:>7.0%}  {_two(found.alpha):>5}"
        expected_columns = f"{expected.tau:>5.2f}  {expected.speedup:>8.2f}  {expected.gamma:>10}"
        click.echo(f"{found.name:{width}}  {measured}  {guess}{expected_columns}")
    click.echo("\nacceptance by position of the guess")
    for result in results:
        pairs = zip(result.found.accepted_at, result.found.tested_at, strict=True)
        row = " ".join(_two(right / tested if tested else None) for right, tested in pairs)
        click.echo(f"{result.found.name:{width}}  {row}")
    click.echo("\nalong the text (first guesses: from none right to all right; . nothing guessed)")
    for result in results:
        click.echo(f"{result.found.name:{width}}  {''.join(map(_bar, result.found.along))}")
    click.echo()
    for result in results:
        click.echo(f"{result.found.name} {result.reason}")
    if yours:
        _print_distance(results, yours)


def _print_distance(results: Sequence[_Result], yours: Sequence[float]) -> None:
    for result, guess in zip(results, yours, strict=True):
        if result.found.alpha is not None:
            points = 100 * (guess - result.found.alpha)
            side = "too high" if points > 0 else "too low"
            click.echo(f"your estimate for {result.found.name} was {abs(points):.0f} points {side}")


def _two(value: float | None) -> str:
    return "   -" if value is None else f"{value:.2f}"


def _bar(value: float | None) -> str:
    return "." if value is None else _BARS[1 + round(value * (len(_BARS) - 2))]


def _document(
    lm: LanguageModel, checked: GenerateOptions, results: Sequence[_Result], yours: list[float] | None
) -> dict[str, Any]:
    return {
        "model": lm.name,
        "drafter": checked.drafter,
        "temperature": checked.temperature,
        "v": {str(rows): v for rows, v in results[0].costs.v.points.items()},
        "texts": [
            {
                **asdict(result.found),
                "alpha": result.found.alpha,
                "c": result.costs.c,
                "expected": asdict(result.expected),
                "gains": result.gains,
                "reason": result.reason,
                "your_guess": None if yours is None else yours[index],
            }
            for index, result in enumerate(results)
        ],
    }

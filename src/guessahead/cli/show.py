"""The output for people: the streamed answer, its guessed tokens in colour, and the figures."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Final

import click

from guessahead.core.state import TARGET
from guessahead.measure.bench.comparison import predicted_tau
from guessahead.text.stream import StreamDecoder

if TYPE_CHECKING:
    from guessahead.core.stats import Stats
    from guessahead.measure.bench.comparison import Comparison
    from guessahead.text.tokenizer import Tokenizer
    from guessahead.types import Chunk, Generation

_COLOURS: Final = ("green", "cyan", "magenta", "yellow")
_CONTROLS: Final = {code: "\ufffd" for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\n"}
_MARKS: Final = ("[]", "{}", "<>", "()")


class Answer:
    """Streams the text of chunks to stdout."""

    def __init__(self) -> None:
        self._last = ""

    def show(self, chunk: Chunk) -> None:
        self._write(chunk.text)

    def finish(self) -> None:
        """Write the text that was held back, and end the line."""
        if self._last != "\n":
            self._write("\n")

    def _write(self, text: str, origin: str = TARGET) -> None:
        if text:
            self._last = text[-1]
            # color=True: otherwise click would remove escape sequences from text that goes to a file.
            click.echo(self._marked(_printable(text), origin), nl=False, color=True)

    def _marked(self, text: str, origin: str) -> str:
        """The text with a mark of its drafter; without one in this class."""
        return text


class MarkedAnswer(Answer):
    """Streams the same text with the accepted guesses coloured, or in brackets without colours.

    One pair of brackets contains the accepted guesses of one step.
    """

    def __init__(self, tokenizer: Tokenizer, stops: Sequence[str] = (), min_tokens: int = 0) -> None:
        super().__init__()
        self._eos_ids = frozenset(tokenizer.eos_ids)
        self._decoder = StreamDecoder(tokenizer, stops, min_tokens)
        self._coloured = colours(sys.stdout)
        self._counts: Counter[str] = Counter()

    def show(self, chunk: Chunk) -> None:
        self._counts.update(chunk.origins)
        pairs = zip(chunk.origins, chunk.token_ids, strict=True)
        for origin, group in groupby(pairs, key=lambda pair: pair[0]):
            self._write("".join(self._text(token) for _, token in group), origin)

    def finish(self) -> None:
        self._write(self._decoder.finish())
        super().finish()

    def legend(self) -> str:
        """The number of tokens of each drafter, in the colours or marks of the answer."""
        parts = [f"the model {self._counts[TARGET]}"]
        parts += [self._marked(f"{origin} {self._counts[origin]}", origin) for origin in self._guessers()]
        return ", ".join(parts)

    def _text(self, token_id: int) -> str:
        return self._decoder.end(token_id) if token_id in self._eos_ids else self._decoder.add(token_id)

    def _guessers(self) -> list[str]:
        return [origin for origin in self._counts if origin != TARGET]

    def _marked(self, text: str, origin: str) -> str:
        if origin == TARGET:
            return text
        number = self._guessers().index(origin) % len(_COLOURS)
        if self._coloured:
            return click.style(text, fg=_COLOURS[number])
        return f"{_MARKS[number][0]}{text}{_MARKS[number][1]}"


def colours(stream: object) -> bool:
    """Whether to write colours to a stream: a terminal, and no NO_COLOR (https://no-color.org)."""
    is_terminal = bool(getattr(stream, "isatty", lambda: False)())
    return is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def styled(text: str, *, err: bool = False, bold: bool = False, dim: bool = False) -> str:
    """`text`, bold or dim if the stream (stdout, or stderr) has colours."""
    return click.style(text, bold=bold, dim=dim) if colours(sys.stderr if err else sys.stdout) else text


def print_figures(lines: Sequence[tuple[str, str]]) -> None:
    """Print labels and values, aligned, on stderr after an empty line."""
    width = max(len(label) for label, _ in lines)
    click.echo(err=True)
    for label, value in lines:
        click.echo(f"  {styled(label.ljust(width), err=True, dim=True)}  {value}", err=True)


def generation_figures(generation: Generation) -> list[tuple[str, str]]:
    """The figures of one generation."""
    stats = generation.stats
    lines = [
        ("speed", f"{rate(stats.tokens_per_second)}, the first one after {stats.prompt_seconds:.2f} s"),
        _tokens(generation),
    ]
    return [*lines, *drafting_figures(stats)]


def drafting_figures(stats: Stats) -> list[tuple[str, str]]:
    """The figures of guessing."""
    lines = []
    if stats.drafter != "none":
        alpha = "-" if stats.alpha is None else f"{stats.alpha:.2f}"
        gamma = stats.gamma
        counts = f"{stats.num_drafted} guessed, {stats.num_tested} tested, {stats.num_accepted} accepted"
        note = f"; {stats.note}" if stats.note else ""
        lines.append((stats.drafter, f"alpha {alpha}: {counts} (gamma {gamma}){note}"))
    if stats.tau is not None:
        predicted = predicted_tau(stats)
        note = "" if predicted is None else f" (predicted {predicted:.2f})"
        swept = f"{stats.num_passes} passes for {stats.num_decoded} tokens"
        saved = f", {stats.num_sweeps_saved} passes saved" if stats.drafter != "none" else ""
        lines.append(("passes", f"tau {stats.tau:.2f}{note}: {swept}{saved}"))
    if stats.gb_per_second is not None:
        lines.append(("memory", f"{stats.gb_per_second:.1f} GB/s of weights"))
    return lines


def comparison_figures(comparison: Comparison) -> list[tuple[str, str]]:
    """The figures of a comparison; the last line is the comparison of the tokens."""
    plain, ours = comparison.plain[0], comparison.speculative[0]
    prediction = comparison.prediction
    note = ""
    if prediction is not None:
        note = f" (predicted {prediction.ratio:.2f} from c = {prediction.c:.3f}, v = {prediction.v:.2f})"
    rounds = f", medians of {len(comparison.plain)} rounds" if len(comparison.plain) > 1 else ""
    gb = "" if plain.stats.gb_per_second is None else f", {plain.stats.gb_per_second:.1f} GB/s of weights"
    return [
        _tokens(ours),
        ("plain", f"{rate(comparison.plain_tokens_per_second)}{gb}"),
        ("guessing", rate(comparison.tokens_per_second)),
        ("ratio", ("-" if comparison.ratio is None else f"{comparison.ratio:.2f}") + note + rounds),
        *drafting_figures(ours.stats),
        ("text", comparison.verdict),
    ]


def rate(tokens_per_second: float | None) -> str:
    """Tokens per second as text; a dash if there was only one token."""
    return "-" if tokens_per_second is None else f"{tokens_per_second:.1f} tokens/s"


def _tokens(generation: Generation) -> tuple[str, str]:
    ends = {
        "eos": "the model ended the text",
        "stop": "ended by a stop string",
        "length": "ended by --max-tokens",
        "context": "the context is full",
    }
    counts = f"{len(generation.token_ids)} after {generation.num_prompt_tokens} of the prompt"
    if generation.stats.num_kept_tokens:
        counts += f" ({generation.stats.num_kept_tokens} of them were in the cache)"
    return "tokens", f"{counts}; {ends[generation.finish_reason]}"


def _printable(text: str) -> str:
    """The text in the encoding of stdout, without control characters on a terminal."""
    if sys.stdout.isatty():
        text = text.translate(_CONTROLS)
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return text.encode(encoding, errors="replace").decode(encoding)

"""Options and output of the three benchmark commands."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from guessahead.cli.base import debug_option
from guessahead.cli.outputs import Output, output_file

if TYPE_CHECKING:
    from guessahead.measure.bench.peaks import PeakMeter

_Function = TypeVar("_Function", bound=Callable[..., Any])


def numbers(context: click.Context, parameter: click.Parameter, text: str) -> tuple[int, ...]:
    """Callback of an option: 1,2,5 -> (1, 2, 5), whole numbers above 0, each once."""
    try:
        found = tuple(int(part) for part in text.split(","))
    except ValueError:
        found = ()
    if not found or min(found) < 1:
        raise click.BadParameter(f"{text!r} is not a list of whole numbers above 0, like 1,2,5")
    return tuple(dict.fromkeys(found))


def shapes(context: click.Context, parameter: click.Parameter, text: str) -> tuple[tuple[int, int], ...]:
    """Callback of an option: 1536x8960,576x1536 -> ((1536, 8960), (576, 1536))."""
    try:
        pairs = [part.lower().split("x") for part in text.split(",")]
        found = tuple((int(k), int(n)) for k, n in pairs)
    except ValueError:
        found = ()
    if not found or min(map(min, found)) < 1:
        raise click.BadParameter(f"{text!r} is not a list of shapes KxN, like 1536x8960,576x1536")
    return tuple(dict.fromkeys(found))


def names(context: click.Context, parameter: click.Parameter, text: str | None) -> tuple[str, ...]:
    """Callback of an option: a,b -> ("a", "b"); () if it was not given."""
    found = () if text is None else tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    if "" in found:
        raise click.BadParameter(f"{text!r} is not a list of names, like a,b")
    return found


def measuring_options(rounds: int) -> Callable[[_Function], _Function]:
    """Add --repeat, --json and --debug."""

    def decorate(function: _Function) -> _Function:
        function = click.option(
            "--json",
            "json_file",
            callback=output_file,
            default="-",
            metavar="OUT",
            help="File of the JSON document.  [default: stdout]",
        )(function)
        function = click.option(
            "--repeat",
            type=click.IntRange(min=1),
            default=rounds,
            show_default=True,
            help="Number of rounds; figures are medians.",
        )(function)
        return debug_option(function)

    return decorate


@contextlib.contextmanager
def timing() -> Iterator[None]:
    """Hold the lock of timing runs, so that only one runs at a time."""
    from guessahead.measure.bench.lock import alone

    with alone(lambda line: click.echo(line, err=True)):
        yield
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", nl=False, err=True)


def show_progress(line: str) -> None:
    """Show progress: one line that replaces the last one; nothing if stderr is not a terminal."""
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[K{line}", nl=False, err=True)


def num_threads(values: Mapping[str, Any]) -> int:
    """--threads, or its default."""
    from guessahead.engines.machine import usable_cores

    given: int | None = values["threads"]
    return usable_cores() if given is None else given


def peak_meter(isa: str, threads: int) -> PeakMeter:
    """A meter with the engine's number of workers."""
    from guessahead import _native
    from guessahead.measure.bench.peaks import PeakMeter

    return PeakMeter(_native.Pool(threads), isa)


def write(document: Mapping[str, Any], isa: str, threads: int, output: Output) -> None:
    """The document with its provenance, on one line."""
    from guessahead.measure.bench.provenance import command_line, provenance

    origin = provenance(isa=isa, threads=threads, arguments=command_line())
    output.write(json.dumps({**document, "provenance": origin}, allow_nan=False) + "\n")

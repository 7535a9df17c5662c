"""`guessahead bench kernels`: products of one matrix with m rows."""

from __future__ import annotations

from typing import Any, Final

import click

from guessahead.cli.base import EXIT_DIFFERENT
from guessahead.cli.bench_common import (
    measuring_options,
    names,
    num_threads,
    numbers,
    shapes,
    show_progress,
    timing,
    write,
)
from guessahead.cli.outputs import Output
from guessahead.errors import ParameterError

_ROWS: Final = "1,2,3,4,5,6,8,12,16"
# Of Qwen2.5-Coder-1.5B (up, down) and of SmolLM2-135M (up, down, output).
_SHAPES: Final = "1536x8960,8960x1536,576x1536,1536x576,576x49152"


@click.command("kernels")
@click.option("--formats", callback=names, metavar="A,B", help="GGUF types.  [default: all]")
@click.option("--rows", callback=numbers, default=_ROWS, show_default=True, help="Rows of activations.")
@click.option(
    "--shapes",
    callback=shapes,
    default=_SHAPES,
    show_default=True,
    metavar="KxN,...",
    help="Inputs x outputs.",
)
@click.option("--threads", type=click.IntRange(1, 256), help="Worker threads.  [default: one per core]")
@click.option("--isa", help="Instruction set.  [default: GUESSAHEAD_ISA, else the best one here]")
@measuring_options(rounds=3)
def command(isa: str | None, json_file: Output, **values: Any) -> None:
    """Time products of one matrix, read from memory, with m rows; compare their bits.

    Tables go to stderr, the JSON document to stdout. The exit code is 1 if the bits of any row differ from
    those of the row alone or of the scalar kernels.
    """
    from guessahead import _native
    from guessahead.cli.bench_tables import print_kernels
    from guessahead.measure.bench.kernels import bench_kernels

    json_file.check()
    try:
        isa = _native.isa(isa or "")
    except ValueError as error:
        raise ParameterError(str(error)) from None
    threads = num_threads(values)
    with timing():
        document = bench_kernels(
            _native.Pool(threads),
            isa,
            formats=values["formats"] or tuple(_native.FORMATS),
            shapes=values["shapes"],
            rows=values["rows"],
            num_rounds=values["repeat"],
            progress=show_progress,
        )
    print_kernels(document)
    write(document, isa, threads, json_file)
    click.get_current_context().exit(
        0 if all(row["bit_identical"] for row in document["rows"]) else EXIT_DIFFERENT
    )

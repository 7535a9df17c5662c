"""`guessahead bench passes`: whole passes of m rows."""

from __future__ import annotations

from typing import Any, Final

import click

from guessahead.cli import options
from guessahead.cli.base import EXIT_DIFFERENT
from guessahead.cli.bench_common import (
    measuring_options,
    num_threads,
    numbers,
    peak_meter,
    timing,
    write,
)
from guessahead.cli.outputs import Output
from guessahead.models.catalogue import DEFAULT_MODEL

_ROWS: Final = "1,2,3,4,5,6,8,12,16"


@click.command("passes")
@options.target_options
@click.option("--contexts", callback=numbers, default="100,4000", show_default=True, help="Cached tokens.")
@click.option("--rows", callback=numbers, default=_ROWS, show_default=True, help="Rows of a pass.")
@click.option(
    "--prompt",
    "prompt_tokens",
    type=click.IntRange(min=0),
    default=512,
    show_default=True,
    help="Length of a prompt to read; 0 = none.",
)
@measuring_options(rounds=15)
def command(json_file: Output, **values: Any) -> None:
    """Time whole passes of m rows, all of them accepted, and compare with the roofline.

    The roofline is the larger of bytes over read bandwidth and multiply-adds over their peak rate, both
    measured in the same run. Tables go to stderr, the JSON document to stdout. The exit code is 1 if any
    token differs from plain decoding's.
    """
    from guessahead.cli.bench_tables import print_passes
    from guessahead.measure.bench.passes import bench_passes
    from guessahead.models.load import resolve

    json_file.check()
    lm = options.load_model(values)
    isa, threads = lm.info.isa, num_threads(values)
    with timing():
        document = bench_passes(
            lm,
            resolve(values["model"] or DEFAULT_MODEL),
            peak_meter(isa, threads),
            contexts=values["contexts"],
            rows=values["rows"],
            prompt_tokens=values["prompt_tokens"],
            num_rounds=values["repeat"],
            int8=values["activations"] == "int8",
        )
    print_passes(document)
    write(document, isa, threads, json_file)
    click.get_current_context().exit(0 if document["identical"] else EXIT_DIFFERENT)

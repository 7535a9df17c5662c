"""`python -m benchmarks.peers.passes`: whole passes of m rows and a prompt, ours and llama.cpp's, in turn."""

from __future__ import annotations

import contextlib
import json
from collections import defaultdict
from collections.abc import Sequence
from statistics import median
from typing import IO, Any, Final

import click

from benchmarks.peers.base import NotInstalledError
from benchmarks.peers.common import common_options, finish, markdown, say, show_progress
from benchmarks.peers.llama_binaries import LlamaBinaries
from guessahead.errors import InputError
from guessahead.measure.bench.lock import alone
from guessahead.measure.bench.passes import PassTimes, time_passes, time_prompt
from guessahead.model import LanguageModel
from guessahead.models.load import load, resolve

_OURS_PER_ROUND: Final = 5
_STEPS: Final = 8  # passes that llama-batched-bench averages over

# Name of a measurement -> number of rows -> milliseconds, one per round.
Samples = dict[str, dict[int, list[float]]]


@click.command()
@common_options
@click.option("--rows", default="1,5,8", show_default=True, help="Rows of a pass.")
@click.option("--context", default=100, show_default=True, help="Cached tokens.")
@click.option("--prompt", default=512, show_default=True, help="Length of the prompt that is read.")
@click.option("--repeat", type=click.IntRange(1), default=3, show_default=True)
def main(model: str, threads: int, json_file: IO[str] | None, **values: Any) -> None:
    """Milliseconds of a pass of m rows, and of reading a prompt.

    ours: one sequence, a token chosen for every row (as when guesses are checked). llama-bench: one sequence,
    but logits for the last row only, nothing chosen. llama-batched-bench: m sequences of one row each, logits
    for every row. The table is Markdown, on stdout.
    """
    rows = [int(part) for part in values["rows"].split(",")]
    try:
        lm = load(model, threads=threads)
        with alone(say), contextlib.closing(LlamaBinaries(values["llama"])) as binaries:
            samples = _measure(lm, binaries, model, threads, rows, values)
            version = binaries.version
    except (InputError, NotInstalledError) as error:
        raise click.ClickException(str(error)) from None
    found = {name: {m: median(each) for m, each in by_rows.items()} for name, by_rows in samples.items()}
    document = {
        "benchmark": "peer-passes",
        "model": lm.name,
        "context": values["context"],
        "num_rounds": values["repeat"],
        "versions": {"llama.cpp": version},
        "rows": [_row(m, found) for m in rows],
        "prompt": _prompt(values["prompt"], found),
    }
    say("")
    click.echo(_table(document))
    isa: str = lm.runner.engine.isa  # type: ignore[attr-defined]
    finish(document, json_file, isa=isa, threads=threads)


def _measure(
    lm: LanguageModel,
    binaries: LlamaBinaries,
    model: str,
    threads: int,
    rows: Sequence[int],
    values: dict[str, Any],
) -> Samples:
    samples: Samples = defaultdict(lambda: defaultdict(list))
    context, prompt = values["context"], values["prompt"]
    found = time_passes(lm, contexts=[context], rows=rows, num_rounds=1, between=lambda: None)
    times = found[context]
    path = str(resolve(model))
    shared = ["-m", path, "-t", str(threads)]
    for turn in range(values["repeat"]):
        show_progress(f"round {turn + 1}: ours")
        _sample_ours(times, rows, samples["ours"])
        samples["ours"][0].append(time_prompt(lm, prompt, 1)["ms"])
        show_progress(f"round {turn + 1}: llama.cpp")
        listed = ",".join(map(str, rows))
        for m, ms in _bench(
            binaries, [*shared, "-p", listed, "-n", "0", "-d", str(context), "-r", "5"]
        ).items():
            samples["llama-bench"][m].append(ms)
        found = _bench(binaries, [*shared, "-p", str(prompt), "-n", "0", "-r", "1"])
        samples["llama-bench"][0].append(found[prompt])
        for m, ms in _batched(binaries, [*shared, "-tb", str(threads)], context, listed).items():
            samples["llama-batched-bench"][m].append(ms)
    return samples


def _sample_ours(times: PassTimes, rows: Sequence[int], into: dict[int, list[float]]) -> None:
    times.blocks.clear()
    for _ in range(_OURS_PER_ROUND):
        times.sample()
    for m in rows:
        into[m].append(times.seconds(m) * 1e3)


def _bench(binaries: LlamaBinaries, arguments: Sequence[str]) -> dict[int, float]:
    """Number of prompt tokens -> milliseconds, by llama-bench."""
    found = json.loads(binaries.run("llama-bench", [*arguments, "-o", "json"]))
    return {entry["n_prompt"]: median(entry["samples_ns"]) / 1e6 for entry in found}


def _batched(binaries: LlamaBinaries, arguments: Sequence[str], context: int, rows: str) -> dict[int, float]:
    """Number of sequences -> milliseconds of a pass with one row of each, by llama-batched-bench."""
    most = max(map(int, rows.split(",")))
    sizes = [
        "-c",
        str(most * (context + _STEPS) + 64),
        "-npp",
        str(context),
        "-ntg",
        str(_STEPS),
        "-npl",
        rows,
    ]
    text = binaries.run("llama-batched-bench", [*arguments, *sizes, "--output-format", "jsonl"])
    found = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return {entry["pl"]: entry["t_tg"] / _STEPS * 1e3 for entry in found}


def _row(m: int, found: dict[str, dict[int, float]]) -> dict[str, Any]:
    ours, bench, batched = (found[name] for name in ("ours", "llama-bench", "llama-batched-bench"))
    return {
        "rows": m,
        "ms": ours[m],
        "v": ours[m] / ours[1],
        "llama_ms": bench[m],
        "llama_v": bench[m] / bench[1],
        "llama_batched_ms": batched[m],
        "ratio": bench[m] / ours[m],
        "ratio_batched": batched[m] / ours[m],
    }


def _prompt(num_tokens: int, found: dict[str, dict[int, float]]) -> dict[str, Any]:
    ours, llama = (num_tokens / found[name][0] * 1e3 for name in ("ours", "llama-bench"))
    return {
        "num_tokens": num_tokens,
        "tokens_per_second": ours,
        "llama_tokens_per_second": llama,
        "ratio": ours / llama,
    }


def _table(document: dict[str, Any]) -> str:
    rows = [
        [
            str(row["rows"]),
            *(f"{row[key]:.2f}" for key in ("ms", "v", "llama_ms", "llama_v", "llama_batched_ms")),
            f"{row['ratio']:.2f}",
            f"{row['ratio_batched']:.2f}",
        ]
        for row in document["rows"]
    ]
    headings = (
        "rows",
        "ours ms",
        "v",
        "llama-bench ms",
        "v",
        "llama-batched-bench ms",
        "ratio",
        "ratio (batched)",
    )
    prompt = document["prompt"]
    return "\n".join(
        [
            f"{document['model']}, {document['context']} tokens cached, llama.cpp "
            f"{document['versions']['llama.cpp']}",
            "",
            markdown(headings, rows),
            "",
            f"Prompt of {prompt['num_tokens']}: {prompt['tokens_per_second']:.0f} against "
            f"{prompt['llama_tokens_per_second']:.0f} tokens/s, {prompt['ratio']:.2f} times.",
        ]
    )


if __name__ == "__main__":
    main()

"""The tables of the benchmarks, on stderr, from their JSON documents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import click
from rich.console import Console
from rich.table import Table

MOST_NULL: Final = 0.05
"""Two measurements of the same thing further apart than this are worth a warning."""

_SUMMARY_COLUMNS: Final = (
    *("drafter", "tokens/s", "ratio", "predicted", "alpha", "tau"),
    *("rows", "drafting", "handling", "c", "GB/s", "first s", "identical"),
)
_CATEGORY_COLUMNS: Final = ("tokens/s", "ratio (predicted)")


def print_drafters(document: dict[str, Any]) -> None:
    """The tables of `guessahead bench`."""
    peaks, passes = document["peaks"], document["passes"]
    bandwidth, num_bytes = peaks["read_gb_per_s"], document["bytes_per_pass"]
    click.echo(
        f"{document['model']}: memory reads {bandwidth:.1f} GB/s, a pass {num_bytes / 1e6:.0f} MB: "
        f"plain decoding cannot exceed {bandwidth * 1e9 / num_bytes:.1f} tokens/s",
        err=True,
    )
    v = ", ".join(f"v({row['rows']}) {row['v']:.2f}" for row in passes["rows"])
    click.echo(
        f"a pass of one row {passes['rows'][0]['ms']:.2f} ms at {passes['context']} tokens; {v}", err=True
    )
    _table(
        (
            "prompt",
            "drafter",
            "tokens",
            "tokens/s",
            "ratio",
            "predicted",
            "alpha",
            "tau",
            "first s",
            "identical",
        ),
        (
            (
                row["prompt_id"],
                row["drafter"],
                str(row["num_tokens"]),
                _number(row["tokens_per_second"], 1),
                _number(row["ratio_to_plain"], 2),
                _number(row["predicted_ratio"], 2),
                _number(row["alpha"], 2),
                _number(row["tau"], 2),
                _number(row["first_token_seconds"], 3),
                _verdict(row),
            )
            for row in document["rows"]
        ),
    )
    _print_categories(document["categories"])
    _print_summary(document)


def _print_categories(entries: Sequence[dict[str, Any]]) -> None:
    drafters = list(dict.fromkeys(entry["drafter"] for entry in entries))
    by_name = {(entry["category"], entry["drafter"]): entry for entry in entries}
    categories = list(dict.fromkeys(entry["category"] for entry in entries))
    _table(
        ("category", "prompts", *(f"{name} {what}" for name in drafters for what in _CATEGORY_COLUMNS)),
        (
            (
                category,
                str(by_name[category, drafters[0]]["num_prompts"]),
                *(text for name in drafters for text in _category_cells(by_name[category, name])),
            )
            for category in categories
        ),
    )


def _category_cells(entry: dict[str, Any]) -> tuple[str, str]:
    ratio, predicted = _number(entry["ratio_to_plain"], 2), entry["predicted_ratio"]
    return (
        _number(entry["tokens_per_second"], 1),
        ratio if predicted is None else f"{ratio} ({predicted:.2f})",
    )


def _print_summary(document: dict[str, Any]) -> None:
    _table(
        _SUMMARY_COLUMNS,
        (
            (
                each["drafter"],
                _number(each["tokens_per_second"], 1),
                _number(each["ratio_to_plain"], 2),
                _number(each["predicted_ratio"], 2),
                _number(each["alpha"], 2),
                _number(each["tau"], 2),
                *_lost(each["lost"]),
                _number(each["c"], 3),
                _number(each["gb_per_second"], 1),
                _number(each["first_token_seconds"], 3),
                f"{each['num_identical']}/{each['num_rows']}" if each["num_rows"] else "-",
            )
            for each in document["drafters"]
        ),
    )
    click.echo(
        "ratio = tau / (1 + rows + drafting + handling), the times that a step takes more than a plain one",
        err=True,
    )
    null, counts = document["null"], document["identical"]
    spread = f"{_number(null['lowest'], 2)} to {_number(null['highest'], 2)}"
    click.echo(f"plain against plain: {_number(null['ratio_to_plain'], 3)} ({spread})", err=True)
    _warn_of_noise([null["lowest"], null["highest"]])
    click.echo(f"identical: {counts['num_identical']}/{counts['num_rows']}", err=True)
    others = [each["drafter"] for each in document["drafters"] if not each["num_rows"]]
    if others:
        click.echo(
            f"not compared: {', '.join(others)} (acceptance {document['acceptance']!r} gives other texts "
            "of the same distribution)",
            err=True,
        )


def _lost(lost: dict[str, float] | None) -> tuple[str, ...]:
    return ("-",) * 3 if lost is None else tuple(f"{value:.3f}" for value in lost.values())


def _warn_of_noise(ratios: Sequence[float | None]) -> None:
    """Say it if two measurements of plain decoding are too far apart."""
    worst = max((max(ratio, 1 / ratio) - 1 for ratio in ratios if ratio), default=0.0)
    if worst > MOST_NULL:
        click.echo(
            f"two measurements of the same differ by up to {worst:.0%}: smaller differences mean nothing",
            err=True,
        )


def _verdict(row: dict[str, Any]) -> str:
    if row["identical"] is None:
        return "-"
    return "yes" if row["identical"] else f"NO, from token {row['first_difference'] + 1}"


def print_passes(document: dict[str, Any]) -> None:
    """The tables of `guessahead bench passes`."""
    click.echo(f"{document['model']}: {_peaks(document['peaks'])}", err=True)
    _table(
        ("context", "rows", "ms", "v", "alternating ms", "v", "roofline ms", "over it"),
        (
            (
                str(row["context"]),
                str(row["rows"]),
                f"{row['ms']:.2f}",
                f"{row['v']:.2f}",
                f"{row['alternating_ms']:.2f}",
                f"{row['alternating_v']:.2f}",
                f"{row['roofline_ms']:.2f}",
                f"{row['ratio_to_roofline']:.2f}",
            )
            for row in document["rows"]
        ),
    )
    for entry in document["contexts"]:
        if "further_row_ms" in entry:
            click.echo(
                f"a further row at {entry['context']} tokens, up to {entry['up_to_rows']}: "
                f"{entry['further_row_ms']:.2f} ms, "
                f"{_number(entry['further_row_over_macs'], 2)} times its int8 multiply-adds at their peak",
                err=True,
            )
    _warn_of_noise([entry["null"] for entry in document["contexts"]])
    prompt = document["prompt"]
    if prompt is not None:
        speed = f"{prompt['tokens_per_second']:.0f} tokens/s"
        click.echo(f"prompt of {prompt['num_tokens']}: {speed} ({prompt['ms']:.0f} ms)", err=True)
    for entry in document["profile"]:
        total = sum(entry["ms"].values())
        parts = sorted(entry["ms"].items(), key=lambda part: -part[1])
        shown = ", ".join(f"{label} {ms:.2f} ({ms / total:.0%})" for label, ms in parts)
        click.echo(f"{entry['rows']} rows at {entry['context']}, ms: {shown}", err=True)
    click.echo(f"identical: {'yes' if document['identical'] else 'NO'}", err=True)


def print_kernels(document: dict[str, Any]) -> None:
    """The tables of `guessahead bench kernels`."""
    click.echo(_peaks(document["peaks"]), err=True)
    rows = list(dict.fromkeys(row["rows"] for row in document["rows"]))
    by_matrix: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in document["rows"]:
        by_matrix.setdefault((row["format"], f"{row['k']}x{row['n']}"), []).append(row)
    _table(
        (
            "format",
            "k x n",
            "1 row us",
            "GB/s",
            *(f"t({m})" for m in rows[1:]),
            "G/s",
            "over roofline",
            "bits",
        ),
        (
            (
                *names,
                f"{found[0]['ms'] * 1e3:.0f}",
                f"{found[0]['gb_per_s']:.1f}",
                *(f"{row['ratio_to_1']:.2f}" for row in found[1:]),
                f"{found[-1]['gmac_per_s']:.0f}",
                f"{max(row['ms'] / row['roofline_ms'] for row in found):.2f}",
                "same" if all(row["bit_identical"] for row in found) else "DIFFERENT",
            )
            for names, found in by_matrix.items()
        ),
    )
    for case in document["skipped"]:
        click.echo(
            f"left out: {case['format']} {case['k']}x{case['n']} (k is no multiple of the block)", err=True
        )


def _peaks(peaks: dict[str, float]) -> str:
    return (
        f"memory reads {peaks['read_gb_per_s']:.1f} GB/s, int8 {peaks['int8_gmac_per_s']:.0f} and "
        f"f32 {peaks['f32_gmac_per_s']:.0f} G multiply-adds/s"
    )


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table; the first two columns are names."""
    console = Console(stderr=True)
    if not console.is_terminal:  # a file has no width
        console = Console(stderr=True, width=200)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    rows = list(rows)
    for index, heading in enumerate(headings):
        numeric = all(row[index][:1].isdigit() or row[index] == "-" for row in rows)
        table.add_column(heading, justify="right" if numeric else "left")
    for row in rows:
        table.add_row(*row)
    click.echo(err=True)
    console.print(table)
    click.echo(err=True)


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"

"""The figures of traces as HTML tables. A dash = not measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import Any

from guessahead.report.tokens import TARGET, drafters_of, style_of
from guessahead.report.trace import Trace

_DASH = "–"


def figures(traces: Sequence[Trace]) -> str:
    """One column per trace."""
    head = "".join(f'<th scope="col">{escape(trace.name)}</th>' for trace in traces)
    rows = []
    for label, hint, value in _FIGURES:
        cells = [value(trace) for trace in traces]
        if all(cell == _DASH for cell in cells):
            continue
        body = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        rows.append(f'<tr><th scope="row">{label}<small>{hint}</small></th>{body}</tr>')
    caption = "<caption>Figures</caption>"
    table = f"{caption}<thead><tr><td></td>{head}</tr></thead><tbody>{''.join(rows)}</tbody>"
    return f'<div class="scroll"><table class="figures">{table}</table></div>'


def legend(trace: Trace, known: Sequence[str]) -> str:
    """The number of tokens by source, each in its style. known: all drafters of the page."""
    origins = [origin for step in trace.steps for origin in step.origins]
    entries = [_swatch("m", "the model itself", origins.count(TARGET))]
    entries += [
        _swatch(style_of(name, known), f"guessed by {name}", origins.count(name))
        for name in drafters_of([trace])
    ]
    num_corrections = sum(step.kind == "correction" for step in trace.steps)
    if num_corrections:
        entries.append(_swatch("m c", "corrections of wrong guesses, included above", num_corrections))
    return f'<ul class="legend">{"".join(entries)}</ul>'


def accepted_lengths(trace: Trace) -> str:
    """Histogram of the accepted guesses per step."""
    counts = _counts(trace.stats, "accepted_lengths")
    rows = []
    for low, high in [(0, 1), *_ranges(len(counts))]:
        steps = sum(counts[low:high])
        rows.append((_range(low, high), steps, f"{steps}"))
    return bars("Guesses accepted per step", ("accepted", "steps"), rows if counts else [])


def acceptance_by_position(trace: Trace) -> str:
    """Accepted / tested guesses, by position in the draft."""
    tested, accepted = (_counts(trace.stats, key) for key in ("tested_at", "accepted_at"))
    rows = []
    for low, high in _ranges(min(len(tested), len(accepted)) + 1):
        all_, right = sum(tested[low - 1 : high - 1]), sum(accepted[low - 1 : high - 1])
        if all_:
            rows.append((f"guess {_range(low, high)}", right / all_, f"{right / all_:.0%} of {all_}"))
    return bars("Acceptance by position in the draft", ("position", "accepted"), rows, top=1.0)


def _ranges(end: int) -> list[tuple[int, int]]:
    """Half-open ranges from 1 to `end`: one by one up to 8, then 9 to 16, 17 to 32, ..."""
    ranges = [(low, low + 1) for low in range(1, min(end, 9))]
    low = 9
    while low < end:
        high = min(2 * low - 1, end)
        ranges.append((low, high))
        low = high
    return ranges


def _range(low: int, high: int) -> str:
    return f"{low}" if high == low + 1 else f"{low} to {high - 1}"


def time_split(trace: Trace) -> str:
    """The parts of the time after the first token."""
    parts = [
        ("guessing", number(trace.stats, "propose_seconds")),
        ("checking", number(trace.stats, "forward_seconds")),
        ("rest", number(trace.stats, "rest_seconds")),
    ]
    known = [(label, seconds) for label, seconds in parts if seconds is not None]
    total = sum(seconds for _, seconds in known)
    rows = [
        (label, seconds, f"{seconds * 1e3:.1f} ms, {seconds / total:.0%}")
        for label, seconds in known
        if total
    ]
    return bars("Time after the first token", ("part", "time"), rows, top=total)


def bars(
    caption: str, heads: tuple[str, str], rows: Iterable[tuple[str, float, str]], top: float | None = None
) -> str:
    """A table with a bar in each row: (label, value, value as text). top: the value of a full bar."""
    listed = list(rows)
    if not listed:
        return ""
    full = top or max(value for _, value, _ in listed) or 1.0
    body = "".join(
        f'<tr><th scope="row">{escape(label)}</th><td>{escape(text)}</td>'
        f'<td class="bar">{_bar(value / full)}</td></tr>'
        for label, value, text in listed
    )
    head = "".join(f'<th scope="col">{each}</th>' for each in heads)
    return (
        f'<table class="bars"><caption>{caption}</caption>'
        f"<thead><tr>{head}<td></td></tr></thead><tbody>{body}</tbody></table>"
    )


def _bar(share: float) -> str:
    width = f"{100 * min(max(share, 0.0), 1.0):.1f}"
    return (
        '<svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect width="{width}" height="10"/></svg>'
    )


def _swatch(classes: str, text: str, count: int) -> str:
    return f'<li><span class="t {classes}">Abc</span> {escape(text)}: {count} tokens</li>'


def number(source: Mapping[str, Any], key: str) -> float | None:
    """A figure that is a finite, non-negative number; None for anything else."""
    value = source.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < float("inf") else None


def _counts(source: Mapping[str, Any], key: str) -> list[int]:
    values = source.get(key)
    listed = values if isinstance(values, list) else []
    return [value for value in listed if isinstance(value, int) and value >= 0]


def _show(value: float | None, form: str) -> str:
    return _DASH if value is None else form.format(value)


def _pair(measured: float | None, predicted: float | None) -> str:
    if measured is None or predicted is None:
        return _show(measured, "{:.2f}")
    return f"{measured:.2f} measured, {predicted:.2f} predicted"


def _stat(key: str, form: str) -> Callable[[Trace], str]:
    return lambda trace: _show(number(trace.stats, key), form)


def _drafter(trace: Trace) -> str:
    return f"{trace.drafter}, gamma {trace.gamma}"


def _guesses(trace: Trace) -> str:
    kinds = {"made": "num_drafted", "tested": "num_tested", "accepted": "num_accepted"}
    return ", ".join(f"{_show(number(trace.stats, key), '{:.0f}')} {kind}" for kind, key in kinds.items())


def _plain_rate(trace: Trace) -> str:
    rate = number(trace.comparison, "plain_tokens_per_second") or number(trace.plain, "tokens_per_second")
    return _show(rate, "{:.1f} tokens/s")


def _same_text(trace: Trace) -> str:
    identical = trace.comparison.get("identical")
    if not isinstance(identical, bool):
        return _DASH
    return "yes, to the last token" if identical else "NO"


def _costs(trace: Trace) -> str:
    c, v = number(trace.comparison, "c"), number(trace.comparison, "v")
    return _DASH if c is None or v is None else f"c = {c:.3f}, v = {v:.2f}"


def _passes_saved(trace: Trace) -> str:
    saved, passes = number(trace.stats, "num_sweeps_saved"), number(trace.stats, "num_passes")
    if saved is None or passes is None:
        return _DASH
    return f"{saved:.0f} of {saved + passes:.0f}"


_FIGURES: tuple[tuple[str, str, Callable[[Trace], str]], ...] = (
    ("model", "", lambda trace: trace.model),
    ("drafter", "", _drafter),
    ("tokens", "of the answer", lambda trace: f"{trace.num_tokens}"),
    ("prompt", "", lambda trace: f"{len(trace.prompt_token_ids)} tokens"),
    ("ended by", "", lambda trace: trace.finish_reason),
    ("guesses", "those after a wrong one are not tested", _guesses),
    ("alpha", "accepted / tested guesses", _stat("alpha", "{:.2f}")),
    (
        "tau",
        "tokens per pass; plain decoding has 1",
        lambda trace: _pair(number(trace.stats, "tau"), trace.predicted_tau),
    ),
    ("passes saved", "additional passes of plain decoding", _passes_saved),
    ("speed", "after the first token", _stat("tokens_per_second", "{:.1f} tokens/s")),
    ("plain decoding", "the same request without guesses", _plain_rate),
    (
        "speed-up",
        "over plain decoding",
        lambda trace: _pair(number(trace.comparison, "ratio"), number(trace.comparison, "predicted_ratio")),
    ),
    ("costs", "of a guess and of a verifying pass, in plain passes", _costs),
    ("same text", "as plain decoding", _same_text),
    ("memory", "weights read in passes", _stat("gb_per_second", "{:.1f} GB/s")),
    (
        "memory, plain",
        "",
        lambda trace: _show(number(trace.plain, "gb_per_second"), "{:.1f} GB/s"),
    ),
    ("first token", "", _stat("prompt_seconds", "after {:.2f} s")),
)

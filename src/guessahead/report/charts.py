"""The charts of steps and progress over time, as SVG with few paths for any number of steps.

x is the time after the first token. The style of all classes is in style.css.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from guessahead.report.tables import number
from guessahead.report.tokens import TARGET, style_of
from guessahead.report.trace import Step, Trace

_HEIGHT = 100.0
_MIN_WIDTH, _MAX_WIDTH = 800, 20_000
_PIXELS_PER_STEP = 6


def timeline(trace: Trace, index: int, known: Sequence[str]) -> str:
    """One bar per step, its width the time of the step: emitted tokens upwards, wrong guesses downwards.

    index: of the trace on the page. known: all drafters of the page.
    """
    steps = trace.later_steps
    edges = _edges(steps)
    if not steps or edges[-1] <= 0.0:
        return ""
    width = min(max(_PIXELS_PER_STEP * len(steps), _MIN_WIDTH), _MAX_WIDTH)
    most = max(len(step.token_ids) for step in steps)
    wrong = [len(step.guesses) - len(step.path) for step in steps]
    unit = _HEIGHT / (most + max(wrong))
    axis = most * unit
    scale = width / edges[-1]
    paths: dict[str, list[str]] = defaultdict(list)
    for step, num_wrong, left, right in zip(steps, wrong, edges[:-1], edges[1:], strict=True):
        x, size = left * scale, (right - left) * scale * 0.9
        # The model's own token at the bottom, the accepted guesses above it.
        stack = sorted(step.origins, key=lambda origin: origin != TARGET)
        for level, origin in enumerate(stack, start=1):
            paths[style_of(origin, known)].append(_box(x, axis - level * unit, size, unit * 0.9))
        if num_wrong:
            paths["w"].append(_box(x, axis + unit * 0.1, size, num_wrong * unit))
    drawn = "".join(f'<path class="f {name}" d="{"".join(boxes)}"/>' for name, boxes in paths.items())
    label = f"{len(steps)} steps in {edges[-1]:.2f} seconds. Arrow keys go from step to step."
    # About a hundred steps fit; with more, the chart is wider than its frame, which scrolls.
    shown = f"{width}" if width > _MIN_WIDTH else "100%"
    return (
        f'<div class="scroll"><svg class="timeline" id="steps-{index}" data-trace="{index}" tabindex="0" '
        f'role="slider" aria-label="{label}" aria-valuemin="1" aria-valuemax="{len(steps)}" '
        f'aria-valuenow="1" viewBox="0 0 {width} {_HEIGHT:.0f}" preserveAspectRatio="none" width="{shown}">'
        f'{drawn}<path class="axis" d="M0 {axis:.1f}H{width}"/>'
        f'<rect class="cursor" y="0" height="{_HEIGHT:.0f}" width="0"/></svg></div>'
        f'<p class="scale"><span>0 s</span><span>{edges[-1]:.2f} s</span></p>'
    )


def progress(trace: Trace) -> str:
    """Tokens over time, and the line of plain decoding if its speed is known."""
    steps = trace.later_steps
    edges = _edges(steps)
    if not steps or edges[-1] <= 0.0:
        return ""
    counts = [0]
    for step in steps:
        counts.append(counts[-1] + len(step.token_ids))
    total = counts[-1]
    plain_rate = number(trace.comparison, "plain_tokens_per_second") or number(
        trace.plain, "tokens_per_second"
    )
    plain_seconds = total / plain_rate if plain_rate else None
    end = max(edges[-1], plain_seconds or 0.0)

    def point(seconds: float, count: float) -> str:
        return f"{1000 * seconds / end:.1f} {_HEIGHT * (1 - count / total):.1f}"

    ours = "L".join(point(seconds, count) for seconds, count in zip(edges, counts, strict=True))
    line = f'<path class="line ours" d="M{ours}"/>'
    note = f"solid: this run, {edges[-1]:.2f} s"
    if plain_seconds is not None:
        line = f'<path class="line plain" d="M{point(0, 0)}L{point(plain_seconds, total)}"/>' + line
        note += f"; dashed: plain decoding, {plain_seconds:.2f} s"
    return (
        f'<figure><svg class="progress" viewBox="0 0 1000 {_HEIGHT:.0f}" preserveAspectRatio="none" '
        f'role="img" aria-label="{total} tokens over time. {note}">{line}</svg>'
        f'<p class="scale"><span>0 s</span><span>{end:.2f} s</span></p>'
        f"<figcaption>{total} tokens; {note}</figcaption></figure>"
    )


def _edges(steps: Sequence[Step]) -> list[float]:
    """The beginning of each step and the end of the last one, in seconds."""
    edges = [0.0]
    for step in steps:
        edges.append(edges[-1] + step.seconds.total)
    return edges


def _box(x: float, y: float, width: float, height: float) -> str:
    return f"M{x:.2f} {y:.1f}h{width:.2f}v{height:.1f}h-{width:.2f}z"

"""Tokens as text and as HTML.

A token can be any bytes: half a character, markup, control characters. Here it becomes readable text, and
HTML that shows exactly that text.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from guessahead.report.trace import Step, Trace

TARGET: Final = "target"
NUM_STYLES: Final = 5
"""Number of drafters with different styles in style.css; further ones reuse them."""

_STEPS_PER_BLOCK: Final = 24
# Control characters are replaced by their pictures (U+2400...), so none is on the page.
_PICTURES: Final = (
    {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\t\n"}
    | {127: "\u2421"}
    | dict.fromkeys(range(128, 160), "\ufffd")
)


@dataclass(frozen=True, slots=True)
class Shown:
    """The appearance of one emitted token. text: "" for a token that ends within a character."""

    text: str
    is_control: bool


def visible(text: str) -> str:
    """The text without control characters (line feed and tab stay)."""
    return text.translate(_PICTURES)


def spell(trace: Trace, token_id: int) -> str:
    """One token by itself: its text, or its bytes if they are not text."""
    data = trace.pieces[token_id]
    try:
        return visible(data.decode())
    except UnicodeDecodeError:
        return f"‹{data.hex(' ')}›"


def shown_tokens(trace: Trace, token_ids: Sequence[int]) -> Iterator[Shown]:
    """The tokens of a text in order. A character that several tokens share belongs to the last of them."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    for token_id in token_ids:
        if token_id in trace.control_token_ids:
            broken = decoder.decode(b"", final=True)
            decoder.reset()
            yield Shown(broken + spell(trace, token_id), True)
        else:
            yield Shown(visible(decoder.decode(trace.pieces[token_id])), False)


def drafters_of(traces: Sequence[Trace]) -> list[str]:
    """All drafters with accepted or rejected guesses, in order of appearance; the index decides the style."""
    names: dict[str, None] = {}
    for step in (step for trace in traces for step in trace.steps):
        names |= dict.fromkeys(step.drafters)
        names |= dict.fromkeys(origin for origin in step.origins if origin != TARGET)
    return list(names)


def style_of(origin: str, known: Sequence[str]) -> str:
    """The CSS class of an origin."""
    return "m" if origin == TARGET else f"g{known.index(origin) % NUM_STYLES}"


def text_html(trace: Trace, known: Sequence[str]) -> str:
    """The answer as blocks of steps of tokens. The tab key moves to the first token.

    known: all drafters of the page.
    """
    every = [token_id for step in trace.steps for token_id in step.token_ids]
    shown = shown_tokens(trace, every)
    blocks: list[str] = []
    steps: list[str] = []
    ends_line = False
    for number, step in enumerate(trace.steps):
        if ends_line and len(steps) >= _STEPS_PER_BLOCK:
            blocks.append("".join(steps))
            steps = []
        parts = [next(shown) for _ in step.token_ids]
        ends_line = parts[-1].text.endswith("\n")
        spans = [_span(step, index, part, known, number) for index, part in enumerate(parts)]
        steps.append(f'<span class="s" data-s="{number}">{"".join(spans)}</span>')
    blocks.append("".join(steps))
    return "".join(f'<div class="block">{block}</div>' for block in blocks)


def prompt_html(trace: Trace) -> str:
    """The prompt, as the model reads it."""
    parts = [
        f'<span class="x">{escape(each.text)}</span>' if each.is_control else escape(each.text)
        for each in shown_tokens(trace, trace.prompt_token_ids)
    ]
    return "".join(parts)


def _span(step: Step, index: int, shown: Shown, known: Sequence[str], number: int) -> str:
    classes = ["t", style_of(step.origins[index], known)]
    if step.kind == "correction" and index == len(step.token_ids) - 1:
        classes.append("c")
    if shown.is_control:
        classes.append("x")
    elif not shown.text:
        classes.append("z")
    elif "\n" in shown.text:
        classes.append("n")
    first = ' tabindex="0"' if number == 0 and index == 0 else ""
    return f'<span class="{" ".join(classes)}"{first}>{escape(shown.text)}</span>'

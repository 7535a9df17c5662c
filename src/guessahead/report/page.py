"""The page: one self-contained file, which needs no network and no server.

Its content security policy allows only its own style and script, by their hashes. Text of tokens is always
inserted as text: escaped here, as `textContent` in the script.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from html import escape
from importlib import resources
from typing import Any

from guessahead.errors import ParameterError
from guessahead.report import charts, tables, tokens
from guessahead.report.trace import Step, Trace


def render(traces: Sequence[Trace]) -> str:
    """The complete page as HTML, several traces side by side. Raises ParameterError if there is none."""
    if not traces:
        raise ParameterError("a report needs at least one trace")
    style, script = _asset("style.css"), _asset("script.js")
    policy = (
        f"default-src 'none'; style-src 'sha256-{_digest(style)}'; script-src 'sha256-{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    names = ", ".join(trace.name for trace in traces)
    known = tokens.drafters_of(traces)
    sections = "".join(_section(trace, index, known) for index, trace in enumerate(traces))
    data = _embedded([_data(trace) for trace in traces])
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(names)} · guessahead</title><style>{style}</style></head>"
        f"<body><header><h1>{escape(names)}</h1>{_INTRODUCTION}</header>"
        f'<main>{tables.figures(traces)}<div class="traces">{sections}</div></main>'
        f'<aside id="panel" aria-label="The token under the pointer or the focus">{_PANEL}</aside>'
        f'<script type="application/json" id="data">{data}</script>'
        f"<script>{script}</script></body></html>\n"
    )


_INTRODUCTION = (
    "<p>Every token below is the model's own choice. Marked tokens were guessed, and accepted in a pass that "
    "checked several at once.</p>"
    '<p class="screen">Point at a token, or enter the text with the tab key and move with the arrow keys '
    "(<kbd>←</kbd> <kbd>→</kbd> token, <kbd>↑</kbd> <kbd>↓</kbd> step, <kbd>Home</kbd>, <kbd>End</kbd>), "
    "to see what was guessed there. <kbd>Esc</kbd> closes the panel.</p>"
)
_PANEL = '<div id="detail" aria-live="polite"></div>'


def _section(trace: Trace, index: int, known: Sequence[str]) -> str:
    charts_html = "".join(
        part
        for part in (
            tables.accepted_lengths(trace),
            tables.acceptance_by_position(trace),
            tables.time_split(trace),
        )
        if part
    )
    steps = charts.timeline(trace, index, known)
    timeline = (
        f"<h3>Steps</h3><p>Width: time. Upwards: emitted tokens. Downwards: rejected "
        f"guesses.</p>{steps}<h3>Progress</h3>{charts.progress(trace)}"
        if steps
        else ""
    )
    return (
        f'<section data-trace="{index}"><h2>{escape(trace.name)}</h2>{tables.legend(trace, known)}'
        f"<details><summary>Prompt, {len(trace.prompt_token_ids)} tokens</summary>"
        f'<div class="prompt" dir="auto">{tokens.prompt_html(trace)}</div></details>'
        f'<div class="text" data-trace="{index}" dir="auto" role="group" '
        f'aria-label="Answer: {trace.num_tokens} tokens">{tokens.text_html(trace, known)}</div>'
        f'{timeline}<div class="charts">{charts_html}</div>'
        f'<details class="steps" data-trace="{index}"><summary>All {len(trace.steps)} steps as a table'
        "</summary></details></section>"
    )


def _data(trace: Trace) -> dict[str, Any]:
    """The data of the script: names, texts by token number, and the steps. See `expand` in script.js."""
    used = sorted({token for step in trace.steps for token in (*step.guesses, *step.token_ids)})
    number = {token: index for index, token in enumerate(used)}
    names = [tokens.TARGET, *tokens.drafters_of([trace])]
    names += [name for name in sorted({o for step in trace.steps for o in step.origins}) if name not in names]
    return {
        "name": trace.name,
        "names": names,
        "texts": [tokens.spell(trace, token) for token in used],
        "steps": [_step(step, number, names) for step in trace.steps],
    }


def _step(step: Step, number: dict[int, int], names: list[str]) -> list[Any]:
    """[kind, emitted, guesses, parents, path, drafters, milliseconds, confidence, reasons]; see script.js.

    parents: 0 for a chain. confidence: 0 for none.
    """
    is_chain = step.parents == tuple(range(-1, len(step.parents) - 1))
    return [
        step.kind,
        [number[token] for token in step.token_ids],
        [number[token] for token in step.guesses],
        0 if is_chain else list(step.parents),
        list(step.path),
        [names.index(name) for name in step.drafters],
        [round(1e3 * part, 3) for part in (step.seconds.propose, step.seconds.forward, step.seconds.rest)],
        0 if step.confidence is None else [round(each, 2) for each in step.confidence],
        "; ".join(step.reasons),
    ]


def _asset(name: str) -> str:
    return resources.files("guessahead.report").joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _embedded(data: object) -> str:
    """JSON that is safe inside HTML: ASCII, without <, > and &."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")

"""The output of `generate --explain`: for each step, the guesses considered and those chosen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from guessahead.model import LanguageModel

LEGEND = (
    "step: guesses (path probability in per cent; * verified, / another branch) -> accepted of verified; "
    "cost of the pass, expected gain"
)


def explain(lm: LanguageModel, trace: Mapping[str, Any]) -> Iterator[str]:
    """The lines of the output: a legend, then one per step."""
    yield LEGEND
    yield from _notes(trace)
    for number, step in enumerate(trace["steps"]):
        yield f"{number:>5}: {_step(lm, step)}"


def _notes(trace: Mapping[str, Any]) -> Iterator[str]:
    """The variants of drafters that have several."""
    for step in trace["steps"]:
        if "members" in step.get("why", {}):
            members = step["why"]["members"]
            yield from (f"{member['drafter']}: {member['note']}" for member in members if member["note"])
            return


def print_explanation(lm: LanguageModel, trace: Mapping[str, Any]) -> None:
    """Print all lines on stderr."""
    click.echo(err=True)
    for line in explain(lm, trace):
        click.echo(line, err=True)


def _step(lm: LanguageModel, step: Mapping[str, Any]) -> str:
    verified, accepted = len(step["draft"]["token_ids"]), len(step["path"])
    why = step.get("why")
    if why is None:
        return f"{accepted} of {verified} accepted; no reasons recorded"
    if "plain" in why:
        return f"plain: {why['plain']}"
    members = ", ".join(f"{each['drafter']} {each['decision']}" for each in why["members"])
    if not why["candidates"]:
        return f"plain: no guess ({members})"
    guesses = " ".join(_guess(lm, node, each) for node, each in enumerate(why["candidates"]))
    v = why["v"][min(verified, len(why["v"]) - 1)]
    outcome = f"{accepted} of {verified} accepted" if verified else "plain: no guess pays"
    cost = (
        f"v({verified + 1}) = {v:.2f}, {why['value']:+.2f} tokens at {why['tokens_per_second']:.0f} tokens/s"
    )
    return f"{guesses} -> {outcome}; {cost} ({members})"


def _guess(lm: LanguageModel, node: int, candidate: Mapping[str, Any]) -> str:
    text = repr(lm.tokenizer.decode([candidate["token_id"]]))
    branch = "" if candidate["parent"] == node - 1 else "/ "
    return f"{branch}{text} {100 * candidate['reach']:.0f}{'*' if candidate['chosen'] else ''}"

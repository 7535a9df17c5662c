"""Shared by `acceptance` and `tune`: the drafter to measure, and a progress bar."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

from guessahead.cli import options

if TYPE_CHECKING:
    from guessahead.drafters.base import Drafter
    from guessahead.measure.texts import Progress
    from guessahead.model import LanguageModel
    from guessahead.options import GenerateOptions

_Function = TypeVar("_Function", bound=Callable[..., Any])
_DRAFTER: Final = tuple(setting for setting in options.DRAFTING if setting.name not in ("gamma", "max_draft"))


def drafter_options(function: _Function) -> _Function:
    """Add --drafter and --drafter-option."""
    for setting in reversed(_DRAFTER):
        function = setting.decorate(function)
    return function


def sampling_options(function: _Function) -> _Function:
    """Add the sampling options."""
    for setting in reversed(options.SAMPLING):
        function = setting.decorate(function)
    return function


def checked_options(
    values: Mapping[str, Any], lm: LanguageModel, draft_model: LanguageModel | None
) -> GenerateOptions:
    """The given generation options, validated. A draft model without a drafter selects `draft-model`."""
    from guessahead.options import GenerateOptions

    names = [setting.name for setting in (*_DRAFTER, *options.SAMPLING) if setting.name in values]
    arguments = {name: values[name] for name in names if values[name] is not None}
    if draft_model is not None:
        arguments = {"drafter": "draft-model"} | arguments | {"draft_model": draft_model}
    return GenerateOptions.from_arguments(arguments, lm.info.vocab_size)


def make_drafter(lm: LanguageModel, checked: GenerateOptions) -> Drafter:
    """A new drafter as in a generation with these options."""
    from guessahead.drafters import registry
    from guessahead.runners.solo import solo

    second = checked.draft_model
    resources = solo(lm.runner).resources(None if second is None else second.runner)
    return registry.make(checked.drafter, checked.drafter_options, resources)


@contextmanager
def progress_bar() -> Iterator[Callable[[str], Progress]]:
    """A function that starts a named piece of work and returns its progress callback.

    The bar is on stderr and erased at the end; there is none if stderr is not a terminal.
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    console = Console(stderr=True)
    with Bar(*columns, console=console, disable=not sys.stderr.isatty(), transient=True) as bar:

        def begin(what: str) -> Progress:
            task = bar.add_task(escape(what), total=None)
            return lambda done, total: bar.update(task, completed=done, total=total)

        yield begin

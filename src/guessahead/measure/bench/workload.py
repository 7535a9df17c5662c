"""The prompts of a benchmark: JSON lines with id, category and prompt."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Final

from guessahead.errors import ParameterError, PromptError
from guessahead.files import read_text

_KEYS: Final = ("id", "category", "prompt")


@dataclass(frozen=True, slots=True)
class Task:
    """One prompt. category: prompts of one category are averaged."""

    prompt_id: str
    category: str
    prompt: str


def default_tasks() -> list[Task]:
    """The prompts that come with the package."""
    data = resources.files("guessahead.data").joinpath("workload.jsonl")
    return _parse(data.read_text(encoding="utf-8"), "workload.jsonl")


def read_tasks(path: Path) -> list[Task]:
    """The prompts of a file. Raises PromptError with file and line for anything else."""
    try:
        text = read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise PromptError(f"{path} cannot be read: {error}") from None
    return _parse(text, str(path))


def select(tasks: Sequence[Task], wanted: Sequence[str]) -> list[Task]:
    """The tasks whose id or category is in `wanted`; all of them if it is empty."""
    known = {task.prompt_id for task in tasks} | {task.category for task in tasks}
    for name in wanted:
        if name not in known:
            raise ParameterError(
                f"there is no prompt or category {name!r}; known: {', '.join(sorted(known))}"
            )
    return [task for task in tasks if not wanted or task.prompt_id in wanted or task.category in wanted]


def _parse(text: str, source: str) -> list[Task]:
    tasks: list[Task] = []
    for number, line in enumerate(text.split("\n"), start=1):  # splitlines would also split at U+2028
        if not line.strip():
            continue
        task = _task(line.removeprefix("\ufeff"))  # files with byte order marks may have been joined
        if task is None:
            raise PromptError(
                f"{source}, line {number}: expected an object with the texts {', '.join(_KEYS)}"
            )
        if any(other.prompt_id == task.prompt_id for other in tasks):
            raise PromptError(f"{source}, line {number}: the id {task.prompt_id!r} appears twice")
        tasks.append(task)
    if not tasks:
        raise PromptError(f"{source} contains no prompt")
    return tasks


def _task(line: str) -> Task | None:
    try:
        entry: Any = json.loads(line)
        values = [entry[key] for key in _KEYS]
    except (ValueError, KeyError, TypeError):
        return None
    return Task(*values) if all(isinstance(value, str) and value for value in values) else None

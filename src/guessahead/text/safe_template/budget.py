"""What rendering one chat template may cost: steps, characters and seconds."""

from __future__ import annotations

import time
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from contextvars import ContextVar
from typing import Any, Final

from jinja2.utils import Cycler, Namespace

MAX_STEPS: Final = 1_000_000
MAX_SECONDS: Final = 2.0
MAX_ITEMS: Final = 200_000  # in one list or dictionary that the template builds, nested ones counted
_MIN_CHARS: Final = 32_000_000
_CHARS_PER_CHAR: Final = 64  # how often a template may process every character of its variables


class LimitError(Exception):
    """A template did too much; the message says of what."""


class Budget:
    """What one rendering may still spend."""

    def __init__(self, num_chars: int) -> None:
        self._num_steps = MAX_STEPS
        self._num_chars = num_chars
        self._deadline = time.monotonic() + MAX_SECONDS

    @classmethod
    def to_process(cls, variables: Mapping[str, Any]) -> Budget:
        """The budget of a template that renders these variables."""
        num_chars = sum(len(item) for item in _everything(variables) if isinstance(item, str))
        return cls(max(_MIN_CHARS, _CHARS_PER_CHAR * num_chars))

    def spend(self, num_chars: int = 0) -> None:
        """Take one step that handles `num_chars` characters or items. Errors: LimitError."""
        self._num_steps -= 1
        self._num_chars -= num_chars
        if self._num_steps < 0:
            raise LimitError(f"more than {MAX_STEPS} steps")
        if self._num_chars < 0:
            raise LimitError("too much text")
        if time.monotonic() > self._deadline:
            raise LimitError(f"more than {MAX_SECONDS:g} seconds")

    def spend_deep(self, value: Any) -> None:
        """Take a step for everything inside `value`, counted as often as it would be written out."""
        for item in _everything(value):
            self.spend(len(item) if isinstance(item, str) else 1)


def _everything(value: Any) -> Iterator[Any]:
    """`value` and all that it holds; what it holds twice comes twice."""
    stack = [value]
    while stack:
        item = stack.pop()
        yield item
        if isinstance(item, Mapping):
            stack.extend(item.keys())
            stack.extend(item.values())
        elif isinstance(item, list | tuple | set | frozenset | KeysView | ValuesView | ItemsView):
            stack.extend(item)
        elif isinstance(item, Namespace):
            stack.append(item._Namespace__attrs)
        elif isinstance(item, Cycler):
            stack.extend(item.items)


# The budget of the rendering that runs in this thread.
current: ContextVar[Budget] = ContextVar("current")


def charge(value: Any) -> Any:
    """The value itself, paid for by its own length."""
    current.get().spend(len(value) if isinstance(value, str | list | tuple | Mapping) else 1)
    return value


def charge_deep(value: Any) -> Any:
    """The value itself, paid for with everything in it."""
    current.get().spend_deep(value)
    return value


def built(value: Any, limit: int = MAX_ITEMS) -> Any:
    """The value itself, unless it holds too much. So no comparison or hash of one value takes long."""
    if value is not None and not isinstance(value, str | int | float):
        for count, _ in enumerate(_everything(value)):
            current.get().spend()
            if count > limit:
                raise LimitError(f"more than {limit} items in one value")
    return value


def turns(iterable: Iterable[Any], num_chars: int = 0) -> Iterator[Any]:
    """The items of a loop, each paid for; `num_chars`: the literal text that one turn may write."""
    budget = current.get()
    for item in iterable:
        budget.spend(num_chars)
        yield item

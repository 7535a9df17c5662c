"""What rendering one chat template may cost: steps, characters and seconds."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, Final

MAX_STEPS: Final = 1_000_000
MAX_SECONDS: Final = 2.0


class LimitError(Exception):
    """A template did too much; the message says of what."""


class Budget:
    """What one rendering may still spend."""

    def __init__(self, num_chars: int) -> None:
        self._num_steps = MAX_STEPS
        self._num_chars = num_chars
        self._deadline = time.monotonic() + MAX_SECONDS

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
        stack = [value]
        while stack:
            item = stack.pop()
            if isinstance(item, Mapping):
                self.spend(len(item))
                stack.extend(item.keys())
                stack.extend(item.values())
            elif isinstance(item, list | tuple | set | frozenset):
                self.spend(len(item))
                stack.extend(item)
            else:
                self.spend(len(item) if isinstance(item, str) else 1)


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


def turns(iterable: Iterable[Any], num_chars: int = 0) -> Iterator[Any]:
    """The items of a loop, each paid for; `num_chars`: the literal text that one turn may write."""
    budget = current.get()
    for item in iterable:
        budget.spend(num_chars)
        yield item

"""Drafters by name.

A drafter's module is imported on first use. Other packages add drafters through the entry-point group
`guessahead.drafters` (name = "package.module:Class").
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import fields
from importlib.metadata import entry_points
from typing import Any, get_type_hints

from guessahead.drafters.base import Drafter, DrafterResources
from guessahead.errors import ParameterError

GROUP = "guessahead.drafters"

_BUILT_IN = {
    "draft-model": "guessahead.drafters.draft_model:DraftModel",
    "grammar": "guessahead.drafters.grammar:GrammarDrafter",
    "head": "guessahead.drafters.head:Head",
    "none": "guessahead.drafters.none:NoDrafter",
    "portfolio": "guessahead.drafters.portfolio:Portfolio",
    "prompt-lookup": "guessahead.drafters.prompt_lookup:PromptLookup",
    "self-q4": "guessahead.drafters.self_draft:SelfQ4",
    "self-q8": "guessahead.drafters.self_draft:SelfQ8",
    "suffix": "guessahead.drafters.suffix:Suffix",
}

OptionValue = str | int | float


def names() -> tuple[str, ...]:
    """All known drafters, sorted."""
    return tuple(sorted({*_BUILT_IN, *(point.name for point in entry_points(group=GROUP))}))


def find(name: str) -> type[Drafter]:
    """The class of a drafter. Raises ParameterError with the known names."""
    if name in _BUILT_IN:
        module, _, attribute = _BUILT_IN[name].partition(":")
        found = getattr(importlib.import_module(module), attribute)
    else:
        points = entry_points(group=GROUP, name=name)
        if not points:
            raise ParameterError(f"unknown drafter {name!r}; known: {', '.join(names())}")
        found = next(iter(points)).load()
    if not (isinstance(found, type) and issubclass(found, Drafter)):
        raise ParameterError(f"drafter {name!r} is not a guessahead.drafters.base.Drafter")
    return found


def make(name: str, options: Mapping[str, OptionValue] | None, resources: DrafterResources) -> Drafter:
    """A new drafter for one generation.

    options: values for its Options, text allowed ("8" for 8). Raises ParameterError for an unknown name or
    option, a value out of range, or a second model that is missing or cannot be used.
    """
    drafter = find(name)
    if drafter.needs_draft_engine and resources.draft_engine is None:
        raise ParameterError(f"drafter {name!r} needs a second model: give a draft model")
    if resources.draft_engine is not None and not drafter.takes_draft_engine:
        raise ParameterError(f"drafter {name!r} cannot use a draft model: use drafter 'draft-model'")
    return drafter.make(_options(name, drafter.Options, options or {}), resources)


def _options(name: str, kind: Any, given: Mapping[str, OptionValue]) -> Any:
    """An instance of the options dataclass `kind`, each value converted to the type of its field."""
    types = get_type_hints(kind)
    known = [field.name for field in fields(kind)]
    values = {}
    for key, value in given.items():
        if key not in known:
            listed = f"known: {', '.join(sorted(known))}" if known else "it has none"
            raise ParameterError(f"drafter {name!r} has no option {key!r}; {listed}")
        values[key] = _convert(f"option {key!r} of drafter {name!r}", value, types[key])
    return kind(**values)


def _convert(what: str, value: OptionValue, kind: type) -> OptionValue:
    """`value` as a `kind`; text is parsed, but 2.5 is not an integer."""
    if kind is bool:
        as_text = str(value).lower()
        if as_text not in ("true", "false", "1", "0"):
            raise ParameterError(f"{what} must be true or false, not {value!r}")
        return as_text in ("true", "1")
    lossy = kind is int and isinstance(value, float) and not value.is_integer()
    try:
        if lossy:
            raise ValueError
        converted: OptionValue = kind(value)
    except (TypeError, ValueError, OverflowError):
        expected = {int: "a whole number", float: "a number"}.get(kind, "text")
        raise ParameterError(f"{what} must be {expected}, not {value!r}") from None
    return converted

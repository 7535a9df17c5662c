"""JSON schemas of Python types, and objects of those types from the JSON that fits.

A Pydantic model makes both itself. A dataclass is taken apart here, so that it needs no other package.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import types
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, Protocol, TypeGuard, Union, get_args, get_origin, get_type_hints

from guessahead.errors import ParameterError

Schema = dict[str, Any]


class PydanticModel(Protocol):
    """The part of a class of Pydantic (2 or later) that is used; Pydantic need not be installed."""

    @classmethod
    def model_json_schema(cls) -> Schema: ...

    @classmethod
    def model_validate_json(cls, json_data: str) -> Any: ...


_SIMPLE: Final[dict[Any, Schema]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    Any: {},
}


def schema_of(given: object) -> Schema:
    """The JSON schema that the option `schema` means.

    given: a schema (a dict, or JSON text), a Pydantic model or a dataclass. The objects of a Python type have
    no fields but its own. Raises ParameterError for anything else.
    """
    if isinstance(given, Mapping):
        return dict(given)
    if given is True:
        return {}
    if isinstance(given, str):
        try:
            found = json.loads(given)
        except ValueError as error:
            raise ParameterError(f"schema is not JSON: {error}") from None
        if isinstance(found, dict) or found is True:
            return schema_of(found)
        raise ParameterError("schema must be a JSON object")
    if is_pydantic(given):
        return dict(_closed(given.model_json_schema()))
    if isinstance(given, type) and dataclasses.is_dataclass(given):
        return _DataclassSchemas().whole(given)
    raise ParameterError(
        f"schema must be a JSON schema (a dict, or JSON text), a Pydantic model or a dataclass, not {given!r}"
    )


def parser_of(given: object) -> Callable[[str], Any]:
    """What makes the object of an answer that fits `schema_of(given)`."""
    if is_pydantic(given):
        return given.model_validate_json
    if isinstance(given, type):
        return lambda text: _object(given, json.loads(text))
    return json.loads


def is_pydantic(given: object) -> TypeGuard[type[PydanticModel]]:
    """Whether it is a class of Pydantic."""
    return isinstance(given, type) and hasattr(given, "model_json_schema")


def _closed(schema: Any) -> Any:
    """The schema with objects that have only the fields it names, where it does not say otherwise."""
    if isinstance(schema, list):
        return [_closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {
        key: value if key in ("default", "enum", "const") else _closed(value) for key, value in schema.items()
    }
    if isinstance(closed.get("properties"), dict) and closed.get("type") == "object":
        closed.setdefault("additionalProperties", False)
    return closed


class _DataclassSchemas:
    """The schemas of a dataclass and of those it holds, which may hold each other."""

    def __init__(self) -> None:
        self._definitions: dict[str, Schema] = {}
        self._names: dict[type, str] = {}

    def whole(self, kind: type) -> Schema:
        reference = self._of(kind, kind.__name__)
        return {**reference, "$defs": self._definitions}

    def _of(self, kind: Any, where: str) -> Schema:
        """The schema of a type. where: the field, for messages."""
        if kind in _SIMPLE:
            return dict(_SIMPLE[kind])
        if isinstance(kind, type) and dataclasses.is_dataclass(kind):
            return self._reference(kind)
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            return {"enum": [each.value for each in kind]}
        origin, arguments = get_origin(kind), get_args(kind)
        if origin in (Union, types.UnionType):
            return {"anyOf": [self._of(each, where) for each in arguments]}
        if origin is Literal:
            return {"enum": list(arguments)}
        if origin is list:
            return {"type": "array", "items": self._of(arguments[0], where)}
        if origin is dict and arguments[0] is str:
            return {"type": "object", "additionalProperties": self._of(arguments[1], where)}
        raise ParameterError(
            f"schema: the type of {where} is {kind!r}; a dataclass may hold str, int, float, bool, None, "
            "Any, Literal, enums, dataclasses, list[...], dict[str, ...] and unions of these"
        )

    def _reference(self, kind: type) -> Schema:
        if kind not in self._names:
            name = f"{kind.__name__}{len(self._names) or ''}"
            self._names[kind] = name
            hints = get_type_hints(kind)
            fields = [each for each in dataclasses.fields(kind) if each.init]
            self._definitions[name] = {
                "type": "object",
                "properties": {
                    each.name: self._of(hints[each.name], f"{kind.__name__}.{each.name}") for each in fields
                },
                "required": [each.name for each in fields if _needs_value(each)],
                "additionalProperties": False,
            }
        return {"$ref": f"#/$defs/{self._names[kind]}"}


def _needs_value(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _object(kind: Any, value: Any) -> Any:
    """The object of a type that this JSON value stands for. Raises ValueError if it stands for none."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        for each in arguments:
            try:
                return _object(each, value)
            except ValueError:
                continue
    elif isinstance(kind, type) and dataclasses.is_dataclass(kind) and isinstance(value, dict):
        hints = get_type_hints(kind)
        if unknown := value.keys() - hints.keys():
            raise ValueError(f"{kind.__name__} has no field {min(unknown)!r}")
        return kind(**{name: _object(hints[name], each) for name, each in value.items()})
    elif isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind(value)
    elif origin is list and isinstance(value, list):
        return [_object(arguments[0], each) for each in value]
    elif origin is dict and isinstance(value, dict):
        return {name: _object(arguments[1], each) for name, each in value.items()}
    elif kind is Any or (origin is Literal and value in arguments):
        return value
    elif kind is float and type(value) in (int, float):
        return float(value)
    elif type(value) is kind:
        return value
    raise ValueError(f"{value!r} is not a {kind}")

"""JSON schemas made at random from a seed: objects, arrays, texts, numbers, choices, references."""

from __future__ import annotations

import random
from typing import Any

Schema = dict[str, Any]

_NAMES = ("name", "id", "fox", "the", "item value", "é", "x_1", "self")
_PATTERNS = ("^[a-c]{1,3}$", "^(fox|dog)s?$", "^[0-9]+-[xyz]$", "a")


def random_schema(seed: int) -> Schema:
    """A schema with definitions that may refer to themselves."""
    random_ = random.Random(seed)
    nested = {
        "type": "object",
        "properties": {"value": _leaf(random_), "next": {"$ref": "#/$defs/nested"}},
        "required": ["value"],
        "additionalProperties": False,
    }
    return {**_schema(random_, 3), "$defs": {"nested": nested, "leaf": _leaf(random_)}}


def _schema(random_: random.Random, depth: int) -> Schema:
    if depth == 0:
        return _leaf(random_)
    kind = random_.choice(("object", "object", "array", "tuple", "any", "reference", "leaf"))
    if kind == "object":
        return _object(random_, depth)
    if kind == "array":
        low = random_.randint(0, 2)
        found: Schema = {"type": "array", "items": _schema(random_, depth - 1), "minItems": low}
        return found | {"maxItems": low + random_.randint(0, 2)}
    if kind == "tuple":
        items = [_schema(random_, depth - 1) for _ in range(random_.randint(1, 3))]
        return {"type": "array", "prefixItems": items, "items": False, "minItems": len(items)}
    if kind == "any":
        return {"anyOf": [_schema(random_, depth - 1) for _ in range(random_.randint(2, 3))]}
    if kind == "reference":
        return {"$ref": random_.choice(("#/$defs/nested", "#/$defs/leaf"))}
    return _leaf(random_)


def _object(random_: random.Random, depth: int) -> Schema:
    names = random_.sample(_NAMES, random_.randint(0, 4))
    more = random_.choice((False, False, {"type": "integer"}))
    return {
        "type": "object",
        "properties": {name: _schema(random_, depth - 1) for name in names},
        "required": [name for name in names if random_.random() < 0.7],
        "additionalProperties": more,
    }


def _leaf(random_: random.Random) -> Schema:
    low = random_.randint(-20, 20)
    return random_.choice(
        (
            {"type": "string", "maxLength": random_.randint(0, 9)},
            {"type": "string", "minLength": 2, "maxLength": 4},
            {"type": "string", "pattern": random_.choice(_PATTERNS), "maxLength": 8},
            {"type": "integer", "minimum": low, "maximum": low + random_.randint(0, 150)},
            {"type": "integer", "exclusiveMinimum": low},
            {"type": "number", "minimum": low, "maximum": low + 1.5},
            {"type": "integer", "multipleOf": random_.choice((2, 5, 10)), "minimum": 0, "maximum": 100},
            {"type": "boolean"},
            {"type": "null"},
            {"type": ["boolean", "string", "null"], "maxLength": 3},
            {"enum": ["fox", "the fox", 3, None, [1, "a"]]},
            {"const": {"the": ["quick", 1.5, True]}},
        )
    )

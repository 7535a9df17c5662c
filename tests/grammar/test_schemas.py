"""Schemas of Python types, and the objects of answers."""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass, field
from typing import Any, Literal

import jsonschema
import pydantic
import pytest

from guessahead.errors import ParameterError
from guessahead.grammar.schemas import parser_of, schema_of


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Line:
    text: str
    amount: float
    colour: Colour = Colour.RED


@dataclass
class Invoice:
    number: int
    lines: list[Line]
    kind: Literal["bill", "credit"]
    note: str | None = None
    counts: dict[str, int] = field(default_factory=dict)
    more: list[Invoice] = field(default_factory=list)


class Address(pydantic.BaseModel):
    street: str
    number: int = pydantic.Field(ge=1)


class Person(pydantic.BaseModel):
    name: str
    home: Address | None = None


FULL = {
    "number": 3,
    "lines": [{"text": "a", "amount": 2}, {"text": "b", "amount": 1.5, "colour": "blue"}],
    "kind": "bill",
    "note": None,
    "counts": {"x": 1},
    "more": [{"number": 4, "lines": [], "kind": "credit"}],
}


def test_a_dataclass_is_a_schema_and_its_objects() -> None:
    schema = schema_of(Invoice)
    validator = jsonschema.Draft202012Validator(schema)
    validator.validate(FULL)
    wrong: list[dict[str, Any]] = [
        FULL | {"kind": "other"},
        FULL | {"unknown": 1},
        FULL | {"number": "3"},
        FULL | {"lines": [{"text": "a", "amount": 1, "colour": "green"}]},
        {key: value for key, value in FULL.items() if key != "lines"},
    ]
    for each in wrong:
        assert not validator.is_valid(each)
        with pytest.raises((ValueError, TypeError)):
            parser_of(Invoice)(json.dumps(each))
    found = parser_of(Invoice)(json.dumps(FULL))
    lines = [Line("a", 2.0), Line("b", 1.5, Colour.BLUE)]
    assert found == Invoice(3, lines, "bill", None, {"x": 1}, [Invoice(4, [], "credit")])
    assert isinstance(found.lines[0].amount, float)


def test_a_pydantic_model_is_a_schema_and_its_objects() -> None:
    validator = jsonschema.Draft202012Validator(schema_of(Person))
    answer = {"name": "Ada", "home": {"street": "Long Lane", "number": 4}}
    validator.validate(answer)
    assert not validator.is_valid(answer | {"age": 4}), "a field that the model does not have"
    assert not validator.is_valid({"name": "Ada", "home": {"street": "Long Lane", "number": 0}})
    assert parser_of(Person)(json.dumps(answer)) == Person(
        name="Ada", home=Address(street="Long Lane", number=4)
    )
    with pytest.raises(pydantic.ValidationError):
        parser_of(Person)("{}")


def test_a_model_that_takes_any_field_keeps_them_open() -> None:
    class Open(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(extra="allow")
        name: str

    assert jsonschema.Draft202012Validator(schema_of(Open)).is_valid({"name": "a", "more": 1})


def test_a_schema_is_used_as_it_is() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    assert schema_of(schema) == schema_of(json.dumps(schema)) == schema
    assert schema_of(True) == schema_of("true") == {}
    assert parser_of(schema)('{"a": 1}') == {"a": 1}


@dataclass
class Strange:
    when: complex


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("{", "schema is not JSON"),
        ("3", "schema must be a JSON object"),
        (3, "not 3"),
        (int, "not <class 'int'>"),
        (Strange, r"type of Strange\.when is <class 'complex'>"),
    ],
)
def test_what_is_no_schema(given: object, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        schema_of(given)

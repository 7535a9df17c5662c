"""Messages as programs send them, and the forms in which templates get them."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

import pytest

from guessahead.errors import ModelError, ModelWarning, PromptError
from guessahead.text.messages import is_message
from tests.text.message_templates import (
    ABSENT,
    ADDED,
    CALL,
    CALLED,
    CALLS,
    CALLS_AS_TEXT,
    DEVELOPER,
    HELLO,
    IF_DEFINED,
    IF_NONE,
    JOINED,
    LOOPED,
    ONLY_PARTS,
    PARTS,
    PLAIN,
    REASONED,
    loop,
    render,
    transformers_render,
)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (PLAIN, "<user>Hello\nyou</><assistant>"),
        (JOINED, "<user>Hello\nyou</><assistant>"),
        (LOOPED, "<user>Helloyou</><assistant>"),
        (ONLY_PARTS, "<user>Helloyou</><assistant>"),
    ],
)
def test_content_in_parts(source: str, expected: str) -> None:
    """Templates that do not know parts get one string, and never show a list as Python writes it."""
    for parts in (PARTS, tuple(PARTS), ["Hello", {"type": "input_text", "text": "you"}], [*PARTS[:1], "you"]):
        assert render(source, [{"role": "user", "content": parts}]) == expected
    assert render(source, [{"role": "user", "content": []}]) == "<user></><assistant>"


@pytest.mark.parametrize("source", [PLAIN, JOINED, LOOPED, ONLY_PARTS])
def test_a_string_reaches_every_template(source: str) -> None:
    assert render(source, HELLO) == "<user>Hello</><assistant>"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            [{"type": "image_url", "image_url": {"url": "x"}}],
            "'content' of message 0 .*'image_url'; only text",
        ),
        ([{"type": "text"}], "only text"),
        ([{"type": "text", "text": None}], "only text"),
        ([5], "a part of the type int"),
        (b"Hello", "must be a string, not bytes"),
        ({"text": "Hello"}, "must be a string, not dict"),
        (None, "has no content"),
    ],
)
def test_content_that_is_no_text(content: object, message: str) -> None:
    with pytest.raises(PromptError, match=message):
        render(PLAIN, [{"role": "user", "content": content}])


@pytest.mark.parametrize("missing", [{}, {"content": None}])
@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (IF_NONE, '<user>Call it.</><assistant>[f {"x": [1, "é"]}]</><tool>4</>'),
        (ADDED, '<user>Call it.</><assistant>[f {"x": [1, "é"]}]</><tool>4</>'),
        (CALLS, '<user>Call it.</><assistant>[f {"x": [1, "é"]}]</><tool>4</>'),
        (CALLS_AS_TEXT, '<user>Call it.</><assistant>[f args {"x": [1, "é"]}]</><tool>4</>'),
    ],
)
def test_null_content_beside_tool_calls(source: str, expected: str, missing: dict[str, Any]) -> None:
    """Arguments as JSON, as programs send them, and as objects, as most templates take them."""
    calling = {"role": "assistant", "tool_calls": [CALL], **missing}
    assert render(source, [CALLED[0], calling, CALLED[2]]) == expected
    function = {"name": "f", "arguments": {"x": [1, "é"]}}
    calling = {**calling, "tool_calls": [{**CALL, "function": function}]}
    assert render(source, [CALLED[0], calling, CALLED[2]]) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (PLAIN, "<user>Call it.</><assistant></><tool>4</><assistant>"),
        (JOINED, "<user>Call it.</><assistant></><tool>4</><assistant>"),
        (IF_DEFINED, "<user>Call it.</><assistant>calls</><tool>4</>"),
        ("f" + PLAIN, "f<user>Call it.</><assistant></><tool>4</><assistant>"),
    ],
)
def test_a_template_without_tool_calls_is_told(source: str, expected: str) -> None:
    with pytest.warns(ModelWarning, match="leaves tool calls out"):
        assert render(source, CALLED) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [(PLAIN, "<system>Be brief.</><user>Hello</><assistant>"), (DEVELOPER, "# Be brief.</><user>Hello</>")],
)
def test_developer_messages(source: str, expected: str) -> None:
    assert render(source, [{"role": "developer", "content": "Be brief."}, *HELLO]) == expected
    with pytest.raises(PromptError, match="two system messages"):
        render(source, [{"role": "developer", "content": "Be brief."}, *HELLO], system="Be kind.")


def test_roles_that_only_this_template_has() -> None:
    source = loop("{% if m['role'] in ['tool', 'ipython'] %}{{ m.content }}{% endif %}")
    assert render(source, [{"role": "ipython", "content": "4"}]) == "4</>"
    for role in ("content", "wizard", ""):
        with pytest.raises(PromptError, match="known are system, user, assistant, tool, developer"):
            render(source, [{"role": role, "content": "4"}])


def test_keys_that_clients_add() -> None:
    """Null ones are left out: templates ask whether a key is there."""
    nulls = dict.fromkeys(("name", "refusal", "audio", "function_call", "tool_calls", "annotations"))
    added = {"id": "m1", "created": 5, "score": 0.5, "final": True, "meta": {"a": [1, None]}, "tags": ("x",)}
    answer = {"role": "assistant", "content": "Hi", **nulls, **added}
    assert render(ABSENT, [*HELLO, answer]) == "<user>Hello</><assistant>Hi</>"
    assert render(ABSENT, [{**answer, "tool_calls": []}]) == "<assistant>Hi</>"
    shown = render("{{ messages[0] | tojson(sort_keys=True) }}", [answer])
    assert '"meta": {"a": [1, null]}' in shown
    assert '"tags": ["x"]' in shown
    assert "refusal" not in shown


@dataclasses.dataclass
class Reply:
    """As a client library returns it."""

    content: Any
    role: str = "assistant"
    refusal: str | None = None


class Dumped:
    """As pydantic's models are."""

    def __init__(self, **fields: Any) -> None:
        self._fields = fields

    def model_dump(self) -> dict[str, Any]:
        return self._fields


def test_objects_of_client_libraries() -> None:
    expected = "<user>Hello</><assistant>Hi</><assistant>"
    for reply in (
        Reply("Hi"),
        Reply([Dumped(type="text", text="Hi")]),
        Dumped(role="assistant", content="Hi"),
    ):
        assert render(PLAIN, [*HELLO, reply]) == expected
        assert is_message(reply)
    assert not is_message(Reply)
    with pytest.raises(PromptError, match="message 1 must be a mapping"):
        render(PLAIN, [*HELLO, Dumped])


def test_reasoning_under_its_older_names() -> None:
    for name in ("reasoning_content", "thinking", "reasoning"):
        assert render(REASONED, [{"role": "assistant", "content": "x", name: "t"}]) == "<assistant>(t)x</>"


def test_what_is_not_json() -> None:
    endless: list[Any] = []
    endless.append(endless)
    for value, message in ((object(), "holds a object"), (b"x", "holds a bytes"), (endless, "too deeply")):
        with pytest.raises(PromptError, match=message):
            render(PLAIN, [{"role": "user", "content": "Hello", "extra": {"deep": value}}])
    with pytest.raises(PromptError, match="'tool_calls' of message 0 must be a list"):
        render(PLAIN, [{"role": "assistant", "content": "Hello", "tool_calls": 5}])
    with pytest.raises(PromptError, match="a key that is not a string"):
        render(PLAIN, [{"role": "user", "content": "Hello", 5: "x"}])


def test_the_messages_of_the_caller_stay_as_they_are() -> None:
    messages = [{"role": "developer", "content": list(PARTS)}, *CALLED]
    before = repr(messages)
    render(CALLS_AS_TEXT, messages)
    render(ONLY_PARTS, [{"role": "assistant", "content": list(PARTS)}], continue_last=True)
    assert repr(messages) == before


def test_subclasses_of_str() -> None:
    class Role(enum.StrEnum):
        USER = "user"

    assert render(PLAIN, [{"role": Role.USER, "content": Role.USER}]) == "<user>user</><assistant>"


def test_a_byte_order_mark_before_a_template() -> None:
    assert render("\ufeff" + PLAIN, HELLO) == render(PLAIN, HELLO)


def test_a_failing_template_fails_with_its_first_problem() -> None:
    with pytest.raises(ModelError, match="ZeroDivisionError"):
        render("{{ 1 // 0 }}", CALLED)


@pytest.mark.reference
@pytest.mark.parametrize(
    ("source", "messages"),
    [
        (LOOPED, [{"role": "user", "content": PARTS}]),
        (ONLY_PARTS, [{"role": "user", "content": PARTS}]),
        (IF_DEFINED, CALLED),
        (PLAIN, CALLED),
        (REASONED, [{"role": "assistant", "content": "x", "thinking": "t"}]),
        (REASONED, [{"role": "assistant", "content": None, "reasoning": "t"}]),
        (DEVELOPER, [{"role": "developer", "content": "Be brief."}, *HELLO]),
        (ABSENT, [{**HELLO[0], "name": "Ann", "id": 5}]),
        (
            CALLS,
            [
                {
                    "role": "assistant",
                    "content": "",
                    "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}],
                }
            ],
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:the model's chat template leaves tool calls out")
def test_the_same_as_transformers(source: str, messages: list[dict[str, Any]]) -> None:
    assert render(source, messages) == transformers_render(source, messages, add_generation_prompt=True)

"""Chat messages as programs send them: checked copies, and the forms of them that templates accept.

A message is a mapping with "role" and "content", or an object with these fields, as client libraries return
it. Programs also send content in parts, none at all beside tool calls, the role "developer", and keys of
their own. As in transformers, keys are passed on to the template, but not those that are null: templates ask
whether a key is there.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from guessahead.errors import PromptError

ROLES: Final = ("system", "user", "assistant", "tool")
DEVELOPER: Final = "developer"  # OpenAI's name of the system message
Message = dict[str, Any]

_TEXT_KEYS: Final = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}
_REASONING: Final = ("reasoning_content", "thinking", "reasoning")  # names of the same, as in transformers
_MAX_DEPTH: Final = 32


def checked(messages: object, system: str | None, is_known: Callable[[str], bool]) -> list[Message]:
    """A copy of the messages, the system message first. Errors: PromptError with the faulty message.

    Content is a string, a list of text parts {"type": "text", "text": ...}, or missing (of the assistant).
    is_known: whether the template knows a role. "developer" becomes "system" if it does not.
    """
    if isinstance(messages, str | bytes | bytearray) or not isinstance(messages, Sequence):
        raise PromptError('messages must be a list such as [{"role": "user", "content": "Hello"}]')
    found = [_checked_one(index, message, is_known) for index, message in enumerate(messages)]
    if not found:
        raise PromptError("there is no message to answer")
    if system is not None:
        if found[0]["role"] in ("system", DEVELOPER):
            raise PromptError("there are two system messages: one in `system`, one in the messages")
        found.insert(0, {"role": "system", "content": system})
    return found


def is_message(value: object) -> bool:
    """Whether a value may be a message: a mapping, or an object with fields."""
    is_object = dataclasses.is_dataclass(value) and not isinstance(value, type)
    return isinstance(value, Mapping) or is_object or callable(getattr(value, "model_dump", None))


def has_parts(messages: Sequence[Message]) -> bool:
    return any(isinstance(message.get("content"), list) for message in messages)


def with_strings(messages: Sequence[Message]) -> list[Message]:
    """The messages with each content as one string: its parts, one per line."""
    return [
        {**message, "content": "\n".join(part["text"] for part in message["content"])}
        if isinstance(message.get("content"), list)
        else message
        for message in messages
    ]


def with_parts(messages: Sequence[Message]) -> list[Message]:
    """The messages with each content as a list of parts."""
    return [
        {**message, "content": [{"type": "text", "text": message["content"]}]}
        if isinstance(message.get("content"), str)
        else message
        for message in messages
    ]


def with_arguments(messages: Sequence[Message], kind: type) -> list[Message]:
    """The messages with the arguments of tool calls as objects (kind: dict) or as JSON (str).

    Programs send JSON, most templates take objects.
    """
    return [
        {**message, "tool_calls": [_with_arguments(call, kind) for call in message["tool_calls"]]}
        if isinstance(message.get("tool_calls"), list)
        else message
        for message in messages
    ]


def forms(messages: Sequence[Message]) -> Iterator[list[Message]]:
    """The messages in the forms to try one after the other, until a template accepts one."""
    for kind in (dict, str):
        form = with_arguments(messages, kind)
        yield form
        if any("content" not in message for message in form):
            yield from ([{"content": content, **message} for message in form] for content in ("", None))
        if not any("tool_calls" in message for message in messages):
            return


def called(messages: Sequence[Message]) -> set[str]:
    """The names of the functions that the assistant calls."""
    calls = (call for message in messages for call in message.get("tool_calls", ()) if isinstance(call, dict))
    functions = (call.get("function", call) for call in calls)
    names = (function.get("name") for function in functions if isinstance(function, dict))
    return {name for name in names if isinstance(name, str)}


def _checked_one(index: int, given: object, is_known: Callable[[str], bool]) -> Message:
    message = _fields(given)
    if message is None or "role" not in message:
        raise PromptError(f'message {index} must be a mapping with "role" and "content"')
    role = message["role"]
    if not isinstance(role, str) or not (role in ROLES or role == DEVELOPER or is_known(role)):
        raise PromptError(f"message {index} has the role {role!r}; known are {', '.join(ROLES)}, {DEVELOPER}")
    role = str.__str__(role)
    checked: Message = {"role": "system" if role == DEVELOPER and not is_known(role) else role}
    if message.get("content") is not None:
        checked["content"] = _content(message["content"], f"'content' of message {index}")
    elif role != "assistant":
        raise PromptError(f"message {index}, of the role {role!r}, has no content")
    for key, value in message.items():
        if not isinstance(key, str):
            raise PromptError(f"message {index} has a key that is not a string")
        if key not in ("role", "content") and value is not None and not (key == "tool_calls" and not value):
            checked[str.__str__(key)] = _plain(value, f"{key!r} of message {index}")
    if not isinstance(checked.get("tool_calls", []), list):
        raise PromptError(f"'tool_calls' of message {index} must be a list")
    reasoning = next((checked[key] for key in _REASONING if key in checked), None)
    return checked if reasoning is None else {_REASONING[1]: reasoning, **checked, _REASONING[0]: reasoning}


def _fields(value: object) -> Mapping[Any, Any] | None:
    """A mapping, or the fields of an object; None for anything else."""
    if isinstance(value, Mapping):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    dump = getattr(value, "model_dump", None)
    found = dump() if callable(dump) and not isinstance(value, type) else None
    return found if isinstance(found, Mapping) else None


def _content(content: object, where: str) -> str | list[Message]:
    if isinstance(content, str):
        return str.__str__(content)
    if not isinstance(content, Sequence) or isinstance(content, bytes | bytearray):
        raise PromptError(f"{where} must be a string, not {type(content).__name__}")
    return [_part(part, where) for part in content]


def _part(part: object, where: str) -> Message:
    if isinstance(part, str):
        return {"type": "text", "text": str.__str__(part)}
    fields = _fields(part)
    if fields is None:
        raise PromptError(f"{where} has a part of the type {type(part).__name__}; parts are texts")
    kind = fields.get("type", "text")
    text = fields.get(_TEXT_KEYS[kind]) if isinstance(kind, str) and kind in _TEXT_KEYS else None
    if not isinstance(text, str):
        raise PromptError(f"{where} has a part of the kind {kind!r}; only text can be read")
    return {"type": "text", "text": str.__str__(text)}


def _plain(value: object, where: str, depth: int = 0) -> Any:
    """A copy that holds only what JSON can. Errors: PromptError."""
    if depth > _MAX_DEPTH:
        raise PromptError(f"{where} is nested too deeply")
    if value is None or type(value) in (bool, int, float):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if (fields := _fields(value)) is not None and all(isinstance(key, str) for key in fields):
        return {str.__str__(key): _plain(each, where, depth + 1) for key, each in fields.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [_plain(each, where, depth + 1) for each in value]
    raise PromptError(f"{where} holds a {type(value).__name__}, which is not JSON")


def _with_arguments(call: Any, kind: type) -> Any:
    function = call.get("function", call) if isinstance(call, dict) else None
    if not isinstance(function, dict) or "arguments" not in function:
        return call
    arguments = function["arguments"]
    if kind is dict and isinstance(arguments, str):
        try:
            parsed = json.loads(arguments)
        except (ValueError, RecursionError):
            return call
        arguments = parsed if isinstance(parsed, dict) else arguments
    elif kind is str and not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    changed = {**function, "arguments": arguments}
    return {**call, "function": changed} if "function" in call else changed

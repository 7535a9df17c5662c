"""A last message of the assistant that the answer continues."""

from __future__ import annotations

from typing import Any

import pytest

from guessahead.errors import PromptError
from tests.text import store
from tests.text.message_templates import (
    CALL,
    CALLS,
    HELLO,
    JOINED,
    LOOPED,
    ONLY_PARTS,
    PARTS,
    PLAIN,
    render,
    transformers_render,
)


@pytest.mark.parametrize("source", [PLAIN, JOINED, LOOPED, ONLY_PARTS, CALLS])
@pytest.mark.parametrize(
    "content", ["The answer is", "two  ", " x\n", "", PARTS, [*PARTS, {"type": "text", "text": "and "}]]
)
def test_the_last_message_is_continued(source: str, content: Any) -> None:
    found = render(source, [*HELLO, {"role": "assistant", "content": content}], continue_last=True)
    assert found.startswith("<user>Hello</><assistant>")
    text = "".join(p["text"] for p in content) if isinstance(content, list) else content
    kept = found.removeprefix("<user>Hello</><assistant>").replace("\n", "").replace(" ", "")
    assert kept == text.replace("\n", "").replace(" ", "")


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        (HELLO, "only an assistant's message"),
        (
            [*HELLO, {"role": "assistant", "content": None, "tool_calls": [CALL]}],
            "only an assistant's message",
        ),
    ],
)
def test_what_cannot_be_continued(messages: Any, message: str) -> None:
    with pytest.raises(PromptError, match=message):
        render(PLAIN, messages, continue_last=True)


@pytest.mark.parametrize(
    "content", ["{{ m.content[:3] }}", "{{ m.content | upper }}", "", "{{ m.content.split('ans')[-1] }}"]
)
def test_a_template_that_changes_the_last_message(content: str) -> None:
    source = PLAIN.replace("{{ m['content'] }}", content)
    with pytest.raises(PromptError, match="changes the last message"):
        render(source, [*HELLO, {"role": "assistant", "content": "The answer"}], continue_last=True)


WHOLE = [{"role": "system", "content": "Be brief. "}, *HELLO, {"role": "assistant", "content": " Hi \n"}]


def _stored(kind: str) -> str:
    source: str = store.metadata(kind)["tokenizer.chat_template"]
    return source


@pytest.mark.reference
@pytest.mark.parametrize("kind", ["smollm", "qwen2", "plain", "joined", "looped"])
@pytest.mark.parametrize("messages", [WHOLE, WHOLE[1:], [*WHOLE[:2], {"role": "assistant", "content": ""}]])
def test_continued_as_by_transformers(kind: str, messages: list[dict[str, Any]]) -> None:
    source = {"plain": PLAIN, "joined": JOINED, "looped": LOOPED}.get(kind) or _stored(kind)
    expected = transformers_render(source, messages, continue_final_message=True)
    assert render(source, messages, continue_last=True) == expected

"""Chat templates: the Jinja template of `tokenizer.chat_template` turns chat messages into a prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from guessahead.errors import ModelError, PromptError
from guessahead.text.safe_template import SafeTemplate
from guessahead.text.tokenizer import Tokenizer

ROLES: Final = ("system", "user", "assistant", "tool")


class ChatTemplate:
    """The template of a model, compiled by the first `render`: a damaged one does not affect raw prompts."""

    def __init__(self, source: str | None, *, bos_token: str = "", eos_token: str = "") -> None:
        """source: None = the model has no template, and `render` raises an error."""
        self.source: Final = source
        self._tokens: Final = {"bos_token": bos_token, "eos_token": eos_token}

    @classmethod
    def from_gguf(cls, metadata: Mapping[str, Any], tokenizer: Tokenizer) -> ChatTemplate:
        """Take `tokenizer.chat_template` and the texts of BOS and EOS. Errors: ModelError if not a string."""
        source = metadata.get("tokenizer.chat_template")
        if source is not None and not isinstance(source, str):
            raise ModelError("tokenizer.chat_template is not a string")
        eos_id = metadata.get("tokenizer.ggml.eos_token_id")
        if isinstance(eos_id, int) and not 0 <= eos_id < tokenizer.vocab_size:
            eos_id = None  # harmless if other tokens end a text, else the tokenizer is refused
        return cls(
            source,
            bos_token="" if tokenizer.bos_id is None else tokenizer.token_text(tokenizer.bos_id),
            eos_token="" if eos_id is None else tokenizer.token_text(eos_id),
        )

    def render(
        self,
        messages: Sequence[Mapping[str, str]],
        system: str | None = None,
        add_generation_prompt: bool = True,
    ) -> str:
        """The prompt; encode it with `tokenizer.encode(text, special=True)`.

        messages: in order, each with a "role" (system, user, assistant, tool) and a "content" string.
        system: a system message to put first; refused if the messages already begin with one.
        add_generation_prompt: end with the beginning of the assistant's answer.
        Errors: PromptError if the model has no template or the messages are refused; ModelError if the
        template is damaged or exceeds its limits (see safe_template).
        """
        return self._template.render(
            {
                "messages": _checked(messages, system),
                "add_generation_prompt": add_generation_prompt,
                "tools": None,
                "documents": None,
                **self._tokens,
            }
        )

    @cached_property
    def _template(self) -> SafeTemplate:
        if self.source is None:
            raise PromptError("the model has no chat template; give it raw text instead (--raw, raw=True)")
        return SafeTemplate(self.source)


def _checked(messages: Sequence[Mapping[str, str]], system: str | None) -> list[dict[str, str]]:
    """A copy of the messages, the system message first. Errors: PromptError with the faulty message."""
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Sequence):
        raise PromptError('messages must be a list such as [{"role": "user", "content": "Hello"}]')
    checked: list[dict[str, str]] = []
    for index, message in enumerate(messages):
        if not isinstance(message, Mapping) or not {"role", "content"} <= message.keys():
            raise PromptError(f'message {index} must be a mapping with "role" and "content"')
        if message["role"] not in ROLES:
            raise PromptError(
                f"message {index} has the role {message['role']!r}; known are {', '.join(ROLES)}"
            )
        for key, value in message.items():
            if not isinstance(value, str):
                raise PromptError(f"{key!r} of message {index} must be a string, not {type(value).__name__}")
        checked.append(dict(message))
    if not checked:
        raise PromptError("there is no message to answer")
    if system is not None:
        if checked[0]["role"] == "system":
            raise PromptError("there are two system messages: one in `system`, one in the messages")
        checked.insert(0, {"role": "system", "content": system})
    return checked

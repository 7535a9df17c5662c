"""Chat templates: the Jinja template of `tokenizer.chat_template` turns chat messages into a prompt."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from guessahead.errors import ModelError, ModelWarning, PromptError
from guessahead.text.messages import (
    Message,
    called,
    checked,
    forms,
    has_parts,
    with_parts,
    with_strings,
)
from guessahead.text.safe_template import SafeTemplate
from guessahead.text.tokenizer import Tokenizer

_PROBE: Final = "guessahead"
_END_MARK: Final = "\ue000end of the last message\ue001"


class ChatTemplate:
    """The template of a model, compiled by the first `render`: a damaged one does not affect raw prompts."""

    def __init__(self, source: str | None, *, bos_token: str = "", eos_token: str = "") -> None:
        """source: None = the model has no template, and `render` raises an error."""
        self.source: Final = None if source is None else source.removeprefix("\ufeff")
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
        messages: Sequence[Mapping[str, Any]],
        system: str | None = None,
        add_generation_prompt: bool = True,
        *,
        continue_last: bool = False,
    ) -> str:
        """The prompt; encode it with `tokenizer.encode(text, special=True)`.

        messages: in order, each with a "role" (system, developer, user, assistant, tool) and a "content"; see
            messages.py. They are given in the form that the template accepts.
        system: a system message to put first; refused if the messages already begin with one.
        add_generation_prompt: end with the beginning of the assistant's answer.
        continue_last: end within the last message, the assistant's, which the answer continues.
        Errors: PromptError if the model has no template or the messages are refused; ModelError if the
        template is damaged or exceeds its limits (see safe_template).
        """
        given = checked(messages, system, self._names)
        if continue_last:
            return self._continued(given)
        return self._in_some_form(given, add_generation_prompt)

    def _continued(self, given: list[Message]) -> str:
        """The prompt up to the end of the last message's text, which a mark shows."""
        last = given[-1]
        [shown] = with_strings([last])
        if last["role"] != "assistant" or "content" not in shown:
            raise PromptError("only an assistant's message with text can be continued, and the last is none")
        text = shown["content"]
        marked = {**last, "content": text + _END_MARK + " "}
        rendered = self._in_some_form([*given[:-1], marked], False)
        before, mark, after = rendered.rpartition(_END_MARK)
        if not mark or text.strip() not in before:
            raise PromptError("the model's chat template changes the last message, so it cannot be continued")
        return before if after.startswith(" ") else before.rstrip()  # trimmed, as the template does

    def _in_some_form(self, given: list[Message], add_generation_prompt: bool) -> str:
        """The prompt of the first form of the messages that the template accepts, with all calls in it."""
        if not self._takes_strings:
            given = with_parts(given)
        elif has_parts(given) and not self._takes_parts:
            given = with_strings(given)
        names, found = called(given), list[str]()
        is_aware = "tool_calls" in (self.source or "")
        problems: list[ModelError | PromptError] = []
        for form in forms(given):
            try:
                found.append(self._rendered(form, add_generation_prompt))
                if not names or (is_aware and all(name in found[-1] for name in names)):
                    return found[-1]
            except (ModelError, PromptError) as error:
                problems.append(error)
        if not found:
            raise problems[0]
        warnings.warn("the model's chat template leaves tool calls out", ModelWarning, stacklevel=2)
        return found[0]

    def _rendered(self, messages: list[Message], add_generation_prompt: bool = True) -> str:
        return self._template.render(
            {
                "messages": messages,
                "add_generation_prompt": add_generation_prompt,
                "tools": None,
                "documents": None,
                **self._tokens,
            }
        )

    def _names(self, role: str) -> bool:
        """Whether the template asks for this role."""
        asked = rf"""role["'\]]*\s*(==|in\b)[^%}}]*["']{re.escape(role)}["']"""
        return re.search(asked, self.source or "") is not None

    @cached_property
    def _takes_strings(self) -> bool:
        """Whether a message whose content is a string comes out; some templates only take parts."""
        if not re.search(r"""\.text\b|["']text["']""", self.source or ""):
            return True  # it does not look into parts
        return _PROBE in self._probed(_PROBE) or not self._takes_parts

    @cached_property
    def _takes_parts(self) -> bool:
        """Whether the text of parts comes out as it would from a string, and not as Python shows a list."""
        from_parts = self._probed([{"type": "text", "text": _PROBE}])
        from_string = self._probed(_PROBE)
        return _PROBE in from_parts and (from_parts == from_string or _PROBE not in from_string)

    def _probed(self, content: object) -> str:
        try:
            return self._rendered([{"role": "user", "content": content}])
        except (ModelError, PromptError):
            return ""

    @cached_property
    def _template(self) -> SafeTemplate:
        if self.source is None:
            raise PromptError("the model has no chat template; give it raw text instead (--raw, raw=True)")
        return SafeTemplate(self.source)

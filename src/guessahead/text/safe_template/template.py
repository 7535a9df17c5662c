"""The one entrance to the sandbox: a template that renders within its limits or raises one clear line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import jinja2

from guessahead.errors import ModelError, PromptError
from guessahead.text.safe_template.budget import Budget, LimitError
from guessahead.text.safe_template.sandbox import ChatEnvironment, RefusedError, render_limited

_MAX_SOURCE_CHARS: Final = 256 * 1024  # the longest published templates have about 20,000 characters


class SafeTemplate:
    """A compiled chat template. What it can reach, and how much it can do, is limited."""

    def __init__(self, source: str) -> None:
        """Errors: ModelError if the source is damaged or too long."""
        if len(source) > _MAX_SOURCE_CHARS:
            raise ModelError(f"the model's chat template is longer than {_MAX_SOURCE_CHARS} characters")
        try:
            self._template: Final = ChatEnvironment().compile_template(source)
        except jinja2.TemplateSyntaxError as error:
            raise ModelError(
                f"the model's chat template is damaged: line {error.lineno}: {_one_line(error.message)}"
            ) from None
        except (jinja2.TemplateError, RecursionError, SyntaxError, MemoryError) as error:
            raise ModelError(f"the model's chat template cannot be compiled: {_one_line(error)}") from None

    def render(self, variables: Mapping[str, Any]) -> str:
        """The text. What the template may do grows with the text in `variables`.

        Errors: PromptError if the template refuses its input (raise_exception), ModelError if it fails or
        exceeds its limits.
        """
        try:
            return render_limited(self._template, variables, Budget.to_process(variables))
        except RefusedError as error:
            raise PromptError(
                f"the model's chat template refuses these messages: {_one_line(error)}"
            ) from None
        except LimitError as error:
            raise ModelError(f"the model's chat template does too much: {_one_line(error)}") from None
        except Exception as error:  # a template can raise any Python exception
            raise ModelError(
                f"the model's chat template fails: {type(error).__name__}: {_one_line(error)}"
            ) from None


def _one_line(error: object) -> str:
    return " ".join(str(error).split())[:300]

"""The options of a generation: names, defaults, meaning and checks."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

from guessahead.core import sampling
from guessahead.core.rejection import ACCEPTANCES, IDENTICAL
from guessahead.errors import ParameterError
from guessahead.grammar.schemas import parser_of, schema_of
from guessahead.types import Acceptance, Gamma, Grammar, SamplingParams

if TYPE_CHECKING:
    from guessahead.drafters.registry import OptionValue
    from guessahead.protocols import Model

Parser = Callable[[str], Any]
"""Makes the object that `Generation.parsed` is, of the text."""
GRAMMARS = ("schema", "regex", "grammar", "choice")
"""The options that say what the text must be."""

_Method = TypeVar("_Method", bound=Callable[..., Any])


class SamplingArguments(TypedDict, total=False):
    """SamplingParams as keyword arguments (the types only; meaning and defaults are there)."""

    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repetition_penalty: float
    frequency_penalty: float
    presence_penalty: float
    logit_bias: Mapping[int, float]
    min_tokens: int
    seed: int | None


class OptionArguments(SamplingArguments, total=False):
    """GenerateOptions as keyword arguments (the types only; meaning and defaults are there)."""

    max_tokens: int
    drafter: str
    draft_model: Model | None
    gamma: Gamma
    max_draft: int | None
    drafter_options: Mapping[str, OptionValue] | None
    acceptance: Acceptance
    stop: str | Sequence[str]
    system: str | None
    raw: bool
    continue_last: bool
    logprobs: int | None
    trace: bool
    schema: Any
    regex: str | None
    grammar: str | None
    choice: Sequence[str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateOptions(SamplingParams):
    """The options of a generation. Those of guessing (drafter to drafter_options) and trace do not change the
    text.

    max_tokens: maximum number of tokens to generate.
    drafter: name of the method that guesses ahead; "none" is plain decoding.
    draft_model: the second model, for the drafters that need one.
    gamma: maximum number of guesses per step (at most the engine's rows per pass, less one); 0 is plain
        decoding; "auto": the number with the highest expected speed, measured during generation.
    max_draft: maximum number of guesses per step if gamma is "auto"; None = 24.
    drafter_options: settings of the drafter, by name.
    acceptance: "identical": the text is that of plain decoding. "rejection": when sampling, the guesses of a
        model are accepted by rejection sampling; the text differs, but its distribution is that of plain
        decoding (see core/rejection.py). Greedy: no difference.
    temperature ... seed: see SamplingParams.
    stop: one or several strings that end the generation; the result ends before them. The name of a control
        token in them means that token, or the same text.
    system: system message for the chat template.
    raw: use the prompt as it is, without the chat template.
    continue_last: continue the last chat message, which is the assistant's, instead of answering it.
    logprobs: report the log-probability of each token and of this many alternatives; None = report none.
    trace: record every step in `Generation.trace`.
    schema: the text is JSON that fits this: a JSON schema (a dict, or JSON text), a Pydantic model or a
        dataclass; `Generation.parsed` is the object. {} is any JSON.
    regex: a regular expression that matches the whole text.
    grammar: a grammar of the text, in the notation of Lark.
    choice: several strings; the text is one of them.
    """

    max_tokens: int = 256
    drafter: str = "portfolio"
    draft_model: Model | None = None
    gamma: Gamma = "auto"
    max_draft: int | None = None
    drafter_options: Mapping[str, OptionValue] | None = None
    acceptance: Acceptance = IDENTICAL
    stop: str | Sequence[str] = ()
    system: str | None = None
    raw: bool = False
    continue_last: bool = False
    logprobs: int | None = None
    trace: bool = False
    schema: Any = None
    regex: str | None = None
    grammar: str | None = None
    choice: Sequence[str] | None = None

    @classmethod
    def from_arguments(cls, arguments: Mapping[str, Any], vocab_size: int) -> GenerateOptions:
        """Validated options. Raises ParameterError, one line, for the first one that cannot be honoured."""
        known = [each.name for each in _listed()]
        for name in arguments:
            if name not in known:
                raise ParameterError(f"unknown option {name!r}; known: {', '.join(known)}")
        options = cls(**arguments)
        options._check(vocab_size)
        return options

    @property
    def stops(self) -> tuple[str, ...]:
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)

    @property
    def sampling(self) -> SamplingParams:
        values = {each.name: getattr(self, each.name) for each in fields(SamplingParams)}
        return SamplingParams(**values)

    @property
    def text_grammar(self) -> Grammar | None:
        """What the text must be, by `schema`, `regex`, `grammar` or `choice`. Raises ParameterError."""
        if self.schema is not None:
            return Grammar("json_schema", json.dumps(schema_of(self.schema)))
        if self.regex is not None:
            return Grammar("regex", self.regex)
        if self.grammar is not None:
            return Grammar("lark", self.grammar)
        if self.choice is not None:
            return Grammar("choice", json.dumps(list(self.choice)))
        return None

    @property
    def parser(self) -> Parser | None:
        """What makes `Generation.parsed` of the text."""
        return None if self.schema is None else parser_of(self.schema)

    def _check_grammar(self) -> None:
        given = [name for name in GRAMMARS if getattr(self, name) is not None]
        if len(given) > 1:
            raise ParameterError(f"{' and '.join(given)} exclude each other: each says what the text must be")
        for name in ("regex", "grammar"):
            if not isinstance(getattr(self, name), str | None):
                raise ParameterError(f"{name} must be text, not {getattr(self, name)!r}")
        choice = self.choice
        if choice is not None and (
            isinstance(choice, str)
            or not isinstance(choice, Sequence)
            or not choice
            or not all(isinstance(each, str) and each for each in choice)
        ):
            raise ParameterError(f"choice must be one or several non-empty strings, not {choice!r}")

    def _check(self, vocab_size: int) -> None:
        self._check_grammar()
        _whole_number("max_tokens", self.max_tokens, 1)
        if self.gamma != "auto":
            _whole_number("gamma", self.gamma, 0)
        if self.max_draft is not None:
            _whole_number("max_draft", self.max_draft, 1)
            if self.gamma != "auto":
                raise ParameterError("max_draft applies only with gamma='auto': leave out one of the two")
        if self.acceptance not in ACCEPTANCES:
            known = " or ".join(map(repr, ACCEPTANCES))
            raise ParameterError(f"acceptance must be {known}, not {self.acceptance!r}")
        if self.logprobs is not None:
            _whole_number("logprobs", self.logprobs, 0, vocab_size)
        for name in ("raw", "continue_last", "trace"):
            if not isinstance(getattr(self, name), bool):
                raise ParameterError(f"{name} must be True or False, not {getattr(self, name)!r}")
        for name in ("drafter", "system"):
            value = getattr(self, name)
            if not isinstance(value, str) and not (name == "system" and value is None):
                raise ParameterError(f"{name} must be text, not {value!r}")
        for name in ("logit_bias", "drafter_options"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, Mapping):
                raise ParameterError(f"{name} must be a mapping, not {value!r}")
        if not isinstance(self.stop, Sequence) or not all(isinstance(s, str) and s for s in self.stops):
            raise ParameterError(f"stop must be a non-empty string or several of them, not {self.stop!r}")
        sampling.validate(self.sampling, vocab_size)
        if self.min_tokens > self.max_tokens:
            raise ParameterError(
                f"min_tokens ({self.min_tokens}) must not be above max_tokens ({self.max_tokens})"
            )
        if self.raw and self.system is not None:
            raise ParameterError("system needs the chat template, but raw=True disables it")


def _default(each: Field[Any]) -> Any:
    return each.default if each.default_factory is MISSING else each.default_factory()


def _listed() -> list[Field[Any]]:
    """The options in the order of the documentation: those of sampling last."""
    sampling_names = {each.name for each in fields(SamplingParams)}
    return sorted(fields(GenerateOptions), key=lambda each: each.name in sampling_names)


def documented(method: _Method) -> _Method:
    """Show the fields of GenerateOptions, with their defaults, as the keyword arguments of `method`."""
    positional = list(inspect.signature(method).parameters.values())[:2]
    keywords = [
        inspect.Parameter(
            each.name, inspect.Parameter.KEYWORD_ONLY, default=_default(each), annotation=each.type
        )
        for each in _listed()
    ]
    signature = inspect.Signature(
        [*positional, *keywords], return_annotation=inspect.signature(method).return_annotation
    )
    method.__signature__ = signature  # type: ignore[attr-defined]
    return method


def check_loading(model: object, threads: object, context: object) -> None:
    """Raise ParameterError for arguments of `load` of another type."""
    if not isinstance(model, str | os.PathLike) or not isinstance(os.fspath(model), str):
        raise ParameterError(f"model must be a name or a path, not {model!r}")
    for name, value in (("threads", threads), ("context", context)):
        if value is not None:
            _whole_number(name, value, 1)


def _whole_number(name: str, value: object, low: int, high: int | None = None) -> None:
    allowed = f"at least {low}" if high is None else f"from {low} to {high}"
    if (
        not isinstance(value, int)
        or isinstance(value, bool)
        or value < low
        or (high is not None and value > high)
    ):
        raise ParameterError(f"{name} must be a whole number {allowed}, not {value!r}")

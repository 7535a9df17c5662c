"""The options of all commands that generate, as one table, and the model and arguments made from their
values.

A value that was not given is None here; the library has the defaults, which the help texts show.
"""

from __future__ import annotations

import locale
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from guessahead.cli import streams
from guessahead.errors import ParameterError
from guessahead.files import decode
from guessahead.models.catalogue import DEFAULT_MODEL
from guessahead.options import GenerateOptions

if TYPE_CHECKING:
    from guessahead.model import LanguageModel

_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Setting:
    """One option. name: the field of GenerateOptions (max_tokens for --max-tokens).

    kind: bool for a flag; a pair of types for NAME=VALUE, which can be repeated; Path for the text of a file.
    many: can be repeated.
    """

    name: str
    kind: type | tuple[type, type]
    help: str
    many: bool = False
    flags: tuple[str, ...] = ()
    metavar: str | None = None

    def decorate(self, function: _Function) -> _Function:
        flags = self.flags or (f"--{self.name.replace('_', '-')}",)
        settings: dict[str, Any] = {"help": self.help + _default_note(self.name), "metavar": self.metavar}
        if self.kind is Path:
            settings["callback"] = self._read
        elif isinstance(self.kind, tuple):
            settings |= {"multiple": True, "callback": self._parse_pairs}
        elif self.kind is bool:
            settings |= {"is_flag": True, "default": None}
        else:
            settings |= {"type": self.kind, "multiple": self.many}
            if self.kind is str:
                settings["callback"] = self._decode
        return click.option(*flags, self.name, **settings)(function)

    def _decode(self, context: click.Context, parameter: click.Parameter, value: Any) -> Any:
        """Texts as they were meant, whatever the locale."""
        if self.many:
            return tuple(argument_text(each, parameter.opts[0]) for each in value)
        return None if value is None else argument_text(value, parameter.opts[0])

    def _read(self, context: click.Context, parameter: click.Parameter, value: Any) -> str | None:
        """The text of a file."""
        if value is None:
            return None
        try:
            return decode(Path(value).read_bytes())
        except OSError as error:
            raise ParameterError(f"{value}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise ParameterError(f"{value}: not a text in UTF-8") from None

    def _parse_pairs(
        self, context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]
    ) -> dict[Any, Any] | None:
        """Parse ("a=1", ...) to {"a": 1, ...}; None if there are none."""
        assert isinstance(self.kind, tuple)
        name_type, value_type = self.kind
        pairs: dict[Any, Any] = {}
        for text in texts:
            left, equals, right = text.partition("=")
            try:
                if not equals or not left.strip():
                    raise ValueError
                name, value = name_type(left.strip()), value_type(right.strip())
            except ValueError:
                raise click.BadParameter(f"{text!r} is not {self.metavar}") from None
            if name in pairs:
                raise click.BadParameter(f"{name!r} appears twice")
            pairs[name] = value
        return pairs or None


DRAFTING: Final = (
    Setting("drafter", str, "Drafter: portfolio, suffix, draft-model, none (plain decoding), ..."),
    Setting("gamma", int, "Guesses per step.  [default: chosen in each step]"),
    Setting("max_draft", int, "Maximum guesses per step without --gamma.  [default: 24, or as tuned]"),
    Setting(
        "drafter_options",
        (str, str),
        "An option of the drafter; can be repeated.",
        flags=("-o", "--drafter-option"),
        metavar="NAME=VALUE",
    ),
)
ACCEPTANCE: Final = (
    Setting(
        "acceptance",
        str,
        "identical: the text of plain decoding. rejection: when sampling, accept a model's guesses by "
        "rejection sampling (Leviathan, Chen): another text, with the distribution of plain decoding.",
        metavar="identical|rejection",
    ),
)
SAMPLING: Final = (
    Setting("temperature", float, "0 is greedy decoding."),
    Setting("top_k", int, "Keep the k most likely tokens; 0 keeps all."),
    Setting("top_p", float, "Keep the smallest set of likely tokens with this total probability."),
    Setting("min_p", float, "Drop tokens below this share of the highest probability."),
    Setting("repetition_penalty", float, "Above 1: tokens that have occurred become less likely."),
    Setting("frequency_penalty", float, "Subtracted from a token's logit for each time it was generated."),
    Setting("presence_penalty", float, "Subtracted once from the logit of a generated token."),
    Setting("logit_bias", (int, float), "Added to a token's logit; can be repeated.", metavar="ID=VALUE"),
    Setting("min_tokens", int, "Minimum number of tokens before the text may end."),
    Setting("seed", int, "Seed of the sampling noise.  [default: a new one]"),
)
LENGTH: Final = (
    Setting("max_tokens", int, "Maximum number of tokens to generate."),
    Setting("stop", str, "A string that ends the answer; can be repeated.", many=True),
)
PROMPT: Final = (
    Setting("system", str, "System message for the chat template."),
    Setting("raw", bool, "Use the prompt as it is, without the chat template."),
)
GRAMMAR: Final = (
    Setting(
        "schema",
        Path,
        "The answer is JSON that fits this JSON schema.",
        flags=("--json-schema",),
        metavar="FILE",
    ),
    Setting("regex", str, "A regular expression that matches the whole answer."),
    Setting("grammar", Path, "The answer follows this grammar, in the notation of Lark.", metavar="FILE"),
    Setting("choice", str, "The answer is one of these strings; repeat it for each.", many=True),
)
GENERATION: Final = (*LENGTH, *GRAMMAR, *DRAFTING, *ACCEPTANCE, *SAMPLING, *PROMPT)


def generation_options(function: _Function) -> _Function:
    """Add all options of GENERATION, in its order."""
    for setting in reversed(GENERATION):
        function = setting.decorate(function)
    return function


_DRAFT_MODEL_OPTION: Final = click.option(
    "--draft-model",
    metavar="NAME|FILE",
    help="A second, smaller model that makes the guesses.",
)
_TARGET_OPTIONS: Final[tuple[Callable[[Any], Any], ...]] = (
    click.option(
        "-m",
        "--model",
        metavar="NAME|FILE",
        help=f"A catalogue name, a GGUF file, a model folder or a hub id.  [default: {DEFAULT_MODEL}]",
    ),
    click.option("--threads", type=int, help="Worker threads.  [default: one per core]"),
    click.option("--context", type=int, help="Maximum tokens of prompt and answer.  [default: the model's]"),
    click.option(
        "--activations",
        type=click.Choice(["int8", "f32"]),
        default="int8",
        show_default=True,
        help="Format of the inputs of quantised weights; f32 is slow, for checks.",
    ),
    click.option(
        "--cache",
        type=click.Choice(["f32", "f16"]),
        default="f32",
        show_default=True,
        help="Format of keys and values; f16 takes half the memory, for long contexts.",
    ),
)


def target_options(function: _Function) -> _Function:
    """Add --model and the options of loading it."""
    return _decorated(function, _TARGET_OPTIONS)


def model_options(function: _Function) -> _Function:
    """Add --model, --draft-model and the options of loading them."""
    model, *rest = _TARGET_OPTIONS
    return _decorated(function, (model, _DRAFT_MODEL_OPTION, *rest))


def _decorated(function: _Function, decorators: Sequence[Callable[[Any], Any]]) -> _Function:
    decorated: Any = function
    for decorate in reversed(decorators):
        decorated = decorate(decorated)
    added: _Function = decorated
    return added


def load_model(values: Mapping[str, Any]) -> LanguageModel:
    """The model that the options of `model_options` name; threads as they were tuned for the pair."""
    from guessahead.model import load

    threads = values["threads"]
    if threads is None and values.get("draft_model") is not None and values["activations"] == "int8":
        threads = _tuned_threads(values["model"] or DEFAULT_MODEL, values["draft_model"])
    return load(
        values["model"] or DEFAULT_MODEL,
        threads=threads,
        context=values["context"],
        activations=values["activations"],
        cache=values["cache"],
    )


def _tuned_threads(model: str, draft_model: str) -> int | None:
    from guessahead.controller import saved
    from guessahead.models.load import identity

    tuned = saved.load(identity(model), identity(draft_model))
    return None if tuned is None else tuned.threads


def load_draft_model(values: Mapping[str, Any]) -> LanguageModel | None:
    """The second model, if one is given. It has its own context; drafting ends when it is full."""
    if values["draft_model"] is None:
        return None
    from guessahead.model import load

    return load(
        values["draft_model"],
        threads=values["threads"],
        activations=values["activations"],
        cache=values["cache"],
    )


def generation_arguments(
    values: Mapping[str, Any], draft_model: LanguageModel | None = None
) -> dict[str, Any]:
    """Arguments for LanguageModel.generate: only the options that were given."""
    given = {setting.name: values[setting.name] for setting in GENERATION}
    arguments = {name: value for name, value in given.items() if value is not None and value != ()}
    if draft_model is not None:
        arguments["draft_model"] = draft_model
    return arguments


def read_prompt(prompt: str, *, raw: bool) -> str:
    """The prompt as given, or stdin for "-" (its last newline is removed unless raw)."""
    if prompt == "-":
        text = _decoded(streams.read_stdin())
        return text if raw else text.removesuffix("\n").removesuffix("\r")
    return argument_text(prompt, "the prompt")


def argument_text(text: str, what: str) -> str:
    """An argument, or a line of a terminal. It was decoded as the locale says; what failed is UTF-8."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            try:
                text = os.fsencode(text).decode()
            except UnicodeError:
                raise ParameterError(f"{what} is not UTF-8") from None
    return text.removeprefix("\ufeff")


def _decoded(data: bytes) -> str:
    """A prompt from stdin: UTF-8, what its byte order mark says, or what the locale says."""
    try:
        return decode(data)
    except UnicodeDecodeError as error:
        problem = ParameterError(f"the prompt on stdin is not UTF-8 (byte {error.start})")
    try:
        return data.decode(locale.getencoding())
    except (UnicodeDecodeError, LookupError):
        raise problem from None


_DEFAULTS: Final = {field.name: field.default for field in fields(GenerateOptions)}


def _default_note(name: str) -> str:
    default: object = _DEFAULTS[name]
    shown = default not in ("auto", ()) and not any(default is each for each in (None, False, MISSING))
    return f"  [default: {default}]" if shown else ""

"""`guessahead chat`: a conversation in the terminal."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from guessahead.cli import options, streams
from guessahead.cli.base import debug_option
from guessahead.errors import InputError, ParameterError
from guessahead.files import decode

if TYPE_CHECKING:
    from guessahead.cli.show import Answer
    from guessahead.model import LanguageModel
    from guessahead.types import Generation

_Function = TypeVar("_Function", bound=Callable[..., Any])
_SETTINGS: Final = tuple(setting for setting in options.GENERATION if setting.name != "raw")
_HELP: Final = {
    "/stats": "figures of the last answer: speed, guesses, passes saved",
    "/compare": "repeat the last answer with and without guessing; compare text and speed",
    "/drafter [NAME]": "show the drafter; with a name, change it",
    "/reset": "forget the conversation",
    "/help": "this list",
    "/quit": "leave (also Ctrl-D)",
    "//...": "a message that begins with a slash: /...",
}
_COMMAND: Final = re.compile(r"/[A-Za-z]+(\s|$)")  # not /etc/passwd, nor a line that begins with a space


def _chat_options(function: _Function) -> _Function:
    for setting in reversed(_SETTINGS):
        function = setting.decorate(function)
    return function


@click.command("chat")
@options.model_options
@_chat_options
@debug_option
def command(**values: Any) -> None:
    """Talk with a model. Accepted guesses are coloured.

    A word after a slash is a command: /help lists them. A message that begins like one needs a second slash
    before it. Ctrl-C ends an answer, Ctrl-D the conversation. The conversation stays in the model's cache:
    each turn reads only the new text. If stdin is not a terminal, each of its lines is a message, and the
    answers go to stdout.
    """
    streams.require("stdin")
    streams.require("stdout")
    values = values | {"raw": None}
    lm, draft_model = options.load_model(values), options.load_draft_model(values)
    chat = Chat(lm, options.generation_arguments(values, draft_model))
    if sys.stdin.isatty():
        _tell(f"{lm.name}, drafter {chat.drafter}; /help lists the commands")
    for line in _lines():
        if not chat.take(line):
            break


class Chat:
    """The conversation so far, and its settings."""

    def __init__(self, lm: LanguageModel, arguments: dict[str, Any]) -> None:
        """arguments: for LanguageModel.stream; the system message counts for every answer."""
        self._lm, self._session = lm, lm.session()
        self._arguments = arguments
        self._messages: list[dict[str, str]] = []
        self._asked: list[dict[str, str]] = []  # the messages before the last answer
        self._last: Generation | None = None
        self._commands: dict[str, Callable[[str], None]] = {
            "/stats": self._stats,
            "/compare": self._compare,
            "/drafter": self._drafter,
            "/reset": self._reset,
            "/help": self._help,
        }

    @property
    def drafter(self) -> str:
        """Name of the drafter."""
        from guessahead.options import GenerateOptions

        name: str = self._arguments.get("drafter", GenerateOptions.__dataclass_fields__["drafter"].default)
        return name

    def take(self, line: str) -> bool:
        """Handle a message or a command; returns False to leave."""
        try:
            text = options.argument_text(line, "the message").strip()
            if text == "/quit":
                return False
            if _COMMAND.match(line):
                self._command(text)
            elif text:
                self._answer(text.removeprefix("/") if line.startswith("//") else text)
        except InputError as error:
            _tell(str(error))
        return True

    def _command(self, text: str) -> None:
        name, _, rest = text.partition(" ")
        if name not in self._commands:
            raise ParameterError(f"unknown command {name}; /help lists the commands, /{text} is a message")
        self._commands[name](rest.strip())

    def _answer(self, text: str) -> None:
        """Stream the next answer. The part before an interruption stays in the conversation."""
        asked = [*self._messages, {"role": "user", "content": text}]
        pieces: list[str] = []
        answer = self._writer()
        with self._session.stream(asked, **self._arguments) as stream:
            try:
                for chunk in stream:
                    pieces.append(chunk.text)
                    answer.show(chunk)
                self._last, self._asked = stream.result, asked
            except KeyboardInterrupt:
                self._last = None
        answer.finish()
        self._messages = [*asked, {"role": "assistant", "content": "".join(pieces)}]
        if self._last is not None and self._last.finish_reason == "context":
            _tell("the context is full: /reset begins a new conversation")

    def _writer(self) -> Answer:
        from guessahead.cli.show import Answer, MarkedAnswer, colours

        if not colours(sys.stdout):
            return Answer()
        return MarkedAnswer(self._lm.tokenizer, self._stops, self._arguments.get("min_tokens", 0))

    @property
    def _stops(self) -> tuple[str, ...]:
        stop = self._arguments.get("stop", ())
        return (stop,) if isinstance(stop, str) else tuple(stop)

    def _stats(self, rest: str) -> None:
        from guessahead.cli.show import generation_figures, print_figures

        print_figures(generation_figures(self._answered()))

    def _compare(self, rest: str) -> None:
        from guessahead.cli.show import comparison_figures, print_figures
        from guessahead.measure.bench.comparison import compare

        seed = {"seed": self._answered().seed}
        _tell("running it with plain decoding and with guessing ...")
        comparison = compare(self._lm, self._asked, self._arguments | seed, watch=lambda plain, chunk: None)
        print_figures(comparison_figures(comparison))

    def _answered(self) -> Generation:
        if self._last is None:
            raise ParameterError("there is no finished answer yet")
        return self._last

    def _drafter(self, name: str) -> None:
        from guessahead.drafters import registry

        if name:
            registry.find(name)
            needs_model = registry.find(name).needs_draft_engine
            if needs_model and "draft_model" not in self._arguments:
                raise ParameterError(f"{name} needs a second model: start with --draft-model")
            self._arguments = {
                key: value for key, value in self._arguments.items() if key != "drafter_options"
            } | {"drafter": name}
        _tell(f"drafter {self.drafter}; known: {', '.join(registry.names())}")

    def _reset(self, rest: str) -> None:
        self._messages, self._asked, self._last = [], [], None
        self._session.close()
        _tell("a new conversation")

    def _help(self, rest: str) -> None:
        width = max(map(len, _HELP))
        for name, text in _HELP.items():
            _tell(f"{name:{width}}  {text}")


def _lines() -> Iterator[str]:
    """The lines of the user, to the end of input. A terminal gets a prompt, a history and line editing."""
    if not sys.stdin.isatty():
        for data in sys.stdin.buffer:
            try:
                yield decode(data)
            except UnicodeDecodeError:
                raise ParameterError("stdin is not UTF-8") from None
        return
    import readline  # noqa: F401  (importing it gives `input` a history)

    while True:
        try:
            yield input("> ")
        except EOFError:
            click.echo()
            return
        except KeyboardInterrupt:
            click.echo()


def _tell(text: str) -> None:
    """Print a line that is not part of an answer."""
    click.echo(text, err=True)

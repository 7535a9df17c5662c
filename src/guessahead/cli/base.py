"""Base of all commands: lazy loading, and errors of one line."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NoReturn, TypeVar

import click

from guessahead.errors import InputError, ModelWarning

_Function = TypeVar("_Function", bound=Callable[..., Any])
_DEBUG: Final = "guessahead.debug"

EXIT_DIFFERENT: Final = 1  # a comparison found a difference
_EXIT_INTERNAL: Final = 1
_EXIT_INPUT: Final = 2
_EXIT_INTERRUPTED: Final = 128 + 2  # as a shell reports SIGINT
_EXIT_NO_READER: Final = 128 + 13  # and SIGPIPE


class _InternalError(click.ClickException):
    exit_code = _EXIT_INTERNAL


class _InputProblem(click.ClickException):
    exit_code = _EXIT_INPUT


@contextlib.contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """Print warnings, such as of ignored settings of a model, as one line each on stderr."""

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if issubclass(category, ModelWarning):
            click.echo(f"guessahead: {' '.join(str(message).split())}", err=True)
        else:
            usual(message, category, *place, **more)

    with warnings.catch_warnings():
        warnings.simplefilter("always", ModelWarning)
        usual = warnings.showwarning
        warnings.showwarning = show
        yield


class Commands(click.Group):
    """A group whose commands are imported on use.

    commands_by_name: name -> (module, one line of help); the module's `command` is the command.
    """

    def __init__(
        self, *arguments: Any, commands_by_name: Mapping[str, tuple[str, str]], **settings: Any
    ) -> None:
        super().__init__(*arguments, **settings)
        self._commands = commands_by_name

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._commands:
            return None
        command: click.Command = importlib.import_module(self._commands[cmd_name][0]).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self._commands.items()])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except BrokenPipeError:
            _quiet_exit()
        except Exception as error:
            if ctx.meta.get(_DEBUG):
                traceback.print_exc()
            if isinstance(error, InputError):
                raise _InputProblem(str(error)) from error
            text = f"internal error, {type(error).__name__}: {error} (--debug shows where)"
            raise _InternalError(text) from error

    def main(
        self, args: Sequence[str] | None = None, prog_name: str | None = None, *rest: Any, **extra: Any
    ) -> NoReturn:
        """Run the command line and exit with its code."""
        extra["standalone_mode"] = False
        try:
            with _warnings_as_lines():
                # With standalone_mode off, click returns the code of `ctx.exit()`.
                code = super().main(args, prog_name or "guessahead", *rest, **extra)
        except click.ClickException as error:
            code = error.exit_code
            click.echo(f"guessahead: {_one_line(error)}", err=True)
        except click.Abort:
            code = _EXIT_INTERRUPTED
        sys.exit(code if isinstance(code, int) else 0)


def debug_option(function: _Function) -> _Function:
    """Adds --debug."""

    def remember(context: click.Context, parameter: click.Parameter, asked: bool) -> None:
        context.meta[_DEBUG] = asked

    return click.option(
        "--debug",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=remember,
        help="Show tracebacks of errors.",
    )(function)


def _one_line(error: click.ClickException) -> str:
    text = " ".join(error.format_message().splitlines())
    if isinstance(error, click.UsageError) and error.ctx is not None:
        text = f"{text.rstrip('.')} (see `{error.ctx.command_path} --help`)"
    return text


def _quiet_exit() -> NoReturn:
    """Exit without a message, also from the interpreter's last flush: stdout was closed by its reader."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(_EXIT_NO_READER)

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

from guessahead.cli import streams
from guessahead.errors import InputError, ModelWarning

_Function = TypeVar("_Function", bound=Callable[..., Any])
_DEBUG: Final = "guessahead.debug"

_NUMPY_THREADS: Final = "OPENBLAS_NUM_THREADS"
_ONE: Final = "01"  # unlike what a user writes

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

    def make_context(self, *arguments: Any, **settings: Any) -> click.Context:
        try:
            return super().make_context(*arguments, **settings)
        except BrokenPipeError:  # of --help and --version
            raise click.exceptions.Exit(_EXIT_NO_READER) from None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except BrokenPipeError:
            raise click.exceptions.Exit(_EXIT_NO_READER) from None
        except Exception as error:
            if ctx.meta.get(_DEBUG):
                traceback.print_exc()
            if isinstance(error, InputError):
                raise _InputProblem(str(error)) from error
            if isinstance(error, OSError):
                raise _InputProblem(_of_the_system(error)) from error
            text = f"internal error, {type(error).__name__}: {error} (--debug shows where)"
            raise _InternalError(text) from error

    def main(
        self, args: Sequence[str] | None = None, prog_name: str | None = None, *rest: Any, **extra: Any
    ) -> NoReturn:
        """Run the command line and exit with its code."""
        extra["standalone_mode"] = False
        streams.prepare()
        limit_numpy()
        try:
            with _warnings_as_lines():
                # With standalone_mode off, click returns the code of `ctx.exit()`.
                code = super().main(args, prog_name or "guessahead", *rest, **extra)
        except click.ClickException as error:
            code = error.exit_code
            click.echo(f"guessahead: {_one_line(error)}", err=True)
        except click.Abort:
            code = _EXIT_INTERRUPTED
        except OSError as error:  # of --help and --version
            code = _EXIT_INPUT
            click.echo(f"guessahead: {_of_the_system(error)}", err=True)
        sys.exit(_end_stdout(code if isinstance(code, int) else 0))


def limit_numpy() -> None:
    """Let numpy's library start no threads: it interrupts the process if it may not start one per core."""
    if _NUMPY_THREADS not in os.environ:
        os.environ[_NUMPY_THREADS] = _ONE


def unlimit_torch() -> None:
    """Undo that before torch is imported, which has the same library on some machines; numpy is there."""
    if os.environ.get(_NUMPY_THREADS) == _ONE:
        del os.environ[_NUMPY_THREADS]


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


def _of_the_system(error: OSError) -> str:
    """An error of the operating system, in one line."""
    reason = error.strerror or str(error)
    return reason if error.filename is None else f"{error.filename}: {reason}"


def _end_stdout(code: int) -> int:
    """Write what waits in stdout; returns the exit code, which is another one if that fails."""
    error = streams.stdout_error()
    if error is None:
        return code
    streams.discard_stdout()
    if code == 0:
        code = _EXIT_INPUT
        if isinstance(error, BrokenPipeError):
            code = _EXIT_NO_READER
        else:
            click.echo(f"guessahead: {_of_the_system(error)}", err=True)
    return code

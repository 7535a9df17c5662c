"""Files that commands write: checked before anything is computed, and never cut without a word."""

from __future__ import annotations

from pathlib import Path

import click

from guessahead.cli import streams
from guessahead.errors import ParameterError
from guessahead.files import check_writable, write_whole


def output_file(context: click.Context, parameter: click.Parameter, name: str | None) -> Output | None:
    """Callback of an option that names a file to write, which is checked; "-" is stdout, which is not."""
    if name is None:
        return None
    output = Output(name)
    try:
        if output.path is not None:
            output.check()
    except ParameterError as error:
        raise click.BadParameter(str(error)) from None
    return output


class Output:
    """A file to write, or stdout."""

    def __init__(self, name: str) -> None:
        self.path = None if name == "-" else Path(name)

    def check(self) -> None:
        """Raise ParameterError if it cannot be written."""
        if self.path is None:
            streams.require("stdout")
            return
        try:
            check_writable(self.path)
        except OSError as error:
            raise _refusal(self.path, error) from None

    def write(self, content: str | bytes) -> None:
        """Write the whole file. Lone surrogates become "?". Raises ParameterError if it cannot be written."""
        if self.path is None:
            click.echo(content, nl=False)
            return
        data = content.encode("utf-8", errors="replace") if isinstance(content, str) else content
        try:
            write_whole(self.path, data)
        except OSError as error:
            raise _refusal(self.path, error) from None


def check_folder(folder: Path) -> None:
    """Make a folder, if there is none, and raise ParameterError if it takes no files."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        check_writable(folder / "new")
    except OSError as error:
        raise _refusal(folder, error) from None


def _refusal(path: Path, error: OSError) -> ParameterError:
    return ParameterError(f"{path} cannot be written: {error.strerror or error}")

"""Writes docs/cli.md from the help texts: python docs/tools/cli_reference.py

tests/docs checks that the page is up to date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from guessahead.cli import main

PAGE = Path(__file__).parent.parent / "cli.md"
_WIDTH = 92
_HEAD = """# Command line

Every command, as `--help` shows it. (Made by `docs/tools/cli_reference.py`: change the help texts instead.)

Answers go to stdout, all else to stderr. Exit codes: 0; 1 where a comparison found a difference, or for a
fault of the program; 2 for what the caller can repair, told in one line; 130 after Ctrl-C; 141 where the
reader of stdout went away.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([_HEAD, *_sections(main, None, "guessahead")])


def _sections(command: click.Command, parent: click.Context | None, name: str) -> Iterator[str]:
    context = click.Context(
        command, parent=parent, info_name=name, terminal_width=_WIDTH, max_content_width=_WIDTH
    )
    context.help_option_names = ["-h", "--help"]
    yield f"## {context.command_path}\n\n```text\n{command.get_help(context).rstrip()}\n```\n"
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            found = command.get_command(context, each)
            assert found is not None
            yield from _sections(found, context, each)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"{PAGE}\n")

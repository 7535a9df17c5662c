"""The command line: `guessahead COMMAND ...`.

One file per command. A command's module is imported when the command is called, so that `--help` is quick.
The answer goes to stdout, everything else to stderr. Exit codes: 0; 1 where a comparison found a difference
(and for a bug of ours); 2 for what the caller can repair; 130 after Ctrl-C; 141 where the reader went away.
"""

from __future__ import annotations

import click

from guessahead.cli.base import Commands


def _version(context: click.Context, parameter: click.Parameter, asked: bool) -> None:
    if asked:
        from guessahead import __version__

        click.echo(f"guessahead {__version__}")
        context.exit()


@click.group(
    cls=Commands,
    commands_by_name={
        "generate": ("guessahead.cli.generate", "Answer a prompt, guessing ahead."),
        "demo": (
            "guessahead.cli.demo",
            "Answers plain and guessed ahead: the same text, both speeds.",
        ),
        "chat": ("guessahead.cli.chat", "Talk with a model in the terminal."),
        "report": ("guessahead.cli.report", "Traces as one HTML page: who guessed what, what it gained."),
        "predict": ("guessahead.cli.predict", "What guessing will gain, from alpha, gamma and costs."),
        "acceptance": (
            "guessahead.cli.acceptance",
            "How well your own texts can be guessed, and which of them gain.",
        ),
        "train": ("guessahead.cli.train", "Make a draft head for a model."),
        "tune": ("guessahead.cli.tune", "Measure this machine and save the best setting for a model."),
        "pull": ("guessahead.cli.pull", "Fetch models of the catalogue into the user cache."),
        "models": ("guessahead.cli.models", "List the models of the catalogue."),
        "bench": ("guessahead.cli.bench", "Measure drafters, passes and kernels."),
        "convert": ("guessahead.cli.convert", "Write a GGUF file again in another precision."),
    },
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version."
)
def main() -> None:
    """Run language models faster: guess tokens ahead and check them in one pass. The text stays the same."""

"""The command line: `guessahead COMMAND ...`.

One file per command, imported when the command is called, so that `--help` is fast. Reading order: base
(groups and errors), options (the shared options), generate, show (the output for people), then any command.
The answer goes to stdout, everything else to stderr. Exit codes: 0; 1 if a comparison found a difference (and
for an internal error); 2 for errors of the caller; 130 after Ctrl-C; 141 if the reader of stdout has closed
it.
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
        "generate": ("guessahead.cli.generate", "Answer a prompt, guessing tokens ahead."),
        "demo": (
            "guessahead.cli.demo",
            "Compare plain decoding and guessing: the same text, both speeds.",
        ),
        "chat": ("guessahead.cli.chat", "Talk with a model in the terminal."),
        "report": (
            "guessahead.cli.report",
            "Make an HTML page of traces: guesses, drafters and gain.",
        ),
        "predict": ("guessahead.cli.predict", "Predict the speed-up from alpha, gamma and costs."),
        "acceptance": (
            "guessahead.cli.acceptance",
            "Measure how often guesses are right on your texts.",
        ),
        "train": ("guessahead.cli.train", "Train a draft head for a model."),
        "tune": ("guessahead.cli.tune", "Measure this machine and save the best setting for a model."),
        "pull": ("guessahead.cli.pull", "Download models of the catalogue into the user cache."),
        "models": ("guessahead.cli.models", "List the models of the catalogue."),
        "bench": ("guessahead.cli.bench", "Measure drafters, passes and kernels."),
        "convert": ("guessahead.cli.convert", "Convert a GGUF file to another precision."),
    },
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version."
)
def main() -> None:
    """Run language models faster: guess tokens ahead and check them in one pass. The text stays the same."""

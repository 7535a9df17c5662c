"""`guessahead train`: training of a draft head for a model."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from guessahead.cli.base import debug_option, unlimit_torch
from guessahead.cli.outputs import check_folder
from guessahead.errors import ParameterError
from guessahead.models.catalogue import DEFAULT_MODEL

if TYPE_CHECKING:
    from guessahead.training.fit import Progress, Trainer
    from guessahead.training.run import Places
    from guessahead.training.target import Target
    from guessahead.types import Int32

_LEAST_TOKENS = 20_000
_TELL = 10.0  # seconds between two lines


@click.command("train")
@click.option("-m", "--model", default=DEFAULT_MODEL, show_default=True, metavar="NAME|FILE")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Folder of the head.  [default: the one of the drafter `head`]",
)
@click.option(
    "--tokens",
    type=click.IntRange(_LEAST_TOKENS),
    default=1_000_000,
    show_default=True,
    help="Number of tokens that the model writes as training data, in chats with itself.",
)
@click.option(
    "--file",
    "files",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Also train on this text; can be repeated.",
)
@click.option("--only-files", is_flag=True, help="Train on --file only; the model writes nothing.")
@click.option(
    "--epochs",
    type=click.FloatRange(0.1),
    default=5.0,
    show_default=True,
    help="Passes over the data.",
)
@click.option(
    "--vocabulary",
    type=click.IntRange(32),
    default=8192,
    show_default=True,
    help="Size of the head's vocabulary: the most frequent tokens.",
)
@click.option("--guesses", type=click.IntRange(1, 8), default=3, show_default=True, help="Guesses ahead.")
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Folder of the texts and their hidden states, some 5 KB per token for a small model; later runs use "
    "it again.  [default: in the user cache]",
)
@click.option("--threads", type=click.IntRange(1), help="[default: all cores]")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option(
    "--every", type=click.FloatRange(5.0), default=180.0, show_default=True, help="Seconds between tests."
)
@click.option(
    "--speculators",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Also write the head in the layout of vLLM's `speculators` there.",
)
@debug_option
def command(
    model: str, output: Path | None, data: Path | None, speculators: Path | None, **values: Any
) -> None:
    """Train a draft head: a small layer that guesses from the model's own hidden states.

    The model writes chats with itself, and the head learns to predict them. With each test on held-out texts,
    the head and a checkpoint are saved: you can interrupt at any time and run the same command to continue.
    The default drafter uses the head as soon as it is saved. Requires torch (pip install torch).
    """
    from guessahead.files import cache_dir
    from guessahead.heads.files import heads_dir
    from guessahead.model import load
    from guessahead.models.load import resolve
    from guessahead.training import run
    from guessahead.training.target import Target

    if values["only_files"] and not values["files"]:
        raise ParameterError("--only-files needs --file")
    _check_torch()
    path = resolve(model)
    target = Target.load(path)
    places = run.Places(
        data or cache_dir() / "training" / target.fingerprint, output or heads_dir() / target.fingerprint
    )
    for folder in (places.data, places.head, speculators):
        if folder is not None:
            check_folder(folder)
    lm = load(model, threads=values["threads"], context=min(1024, target.config.context_length))
    paths = []
    if not values["only_files"]:
        store = run.store_of(target, places.data)
        paths = run.write_chats(lm, target, store, values["tokens"], _writing(values["tokens"]))
    paths += run.read_files(lm, target, places.data, values["files"])
    trainer, draft_ids = _learn(target, paths, places, values)
    if speculators is not None:
        from guessahead.training.speculators import write_speculators

        layers = run.fused_layers(target.config.num_layers)
        guesses = values["guesses"]
        write_speculators(trainer.weights(), target, layers, draft_ids, model, guesses, speculators)
        _say(f"written to {speculators}, for vLLM")


def _learn(
    target: Target, paths: list[Path], places: Places, values: dict[str, Any]
) -> tuple[Trainer, Int32]:
    import torch

    from guessahead.training import run
    from guessahead.training.fit import Recipe

    if values["threads"]:
        torch.set_num_threads(values["threads"])
    recipe = Recipe(epochs=values["epochs"], guesses=values["guesses"], seed=values["seed"])
    trainer, draft_ids = run.prepare(target, paths, places, recipe, values["vocabulary"])
    _say(f"{trainer.goal:,} tokens to learn from, repetitions included; {trainer.tokens:,} so far")
    began, before = perf_counter(), trainer.tokens
    for progress in run.train(target, trainer, draft_ids, places, values["every"]):
        left = (perf_counter() - began) / max(progress.tokens - before, 1) * (trainer.goal - progress.tokens)
        _say(_shown(progress, left))
    _say(f"written to {places.head}")
    return trainer, draft_ids


def _writing(wanted: int) -> Callable[[int], None]:
    """A callback that shows the progress of writing."""
    began, told = perf_counter(), -_TELL

    def show(tokens: int) -> None:
        nonlocal told
        seconds = perf_counter() - began
        if seconds - told < _TELL and tokens < wanted:
            return
        told = seconds
        left = seconds / tokens * max(wanted - tokens, 0)
        _say(f"written {min(tokens, wanted):,} of {wanted:,} tokens, {_minutes(left)} left")

    return show


def _shown(progress: Progress, left: float) -> str:
    line = f"learned {progress.tokens:,} tokens, loss {progress.loss:.2f}, {_minutes(left)} left"
    if progress.agreement is not None:
        line += "; right: " + ", ".join(f"{share:.1%}" for share in progress.agreement)
    return line


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


def _check_torch() -> None:
    import numpy  # noqa: F401

    unlimit_torch()
    try:
        import torch  # noqa: F401
    except ImportError:
        raise ParameterError("training needs torch: pip install torch") from None


def _say(line: str) -> None:
    click.echo(line, file=sys.stderr)

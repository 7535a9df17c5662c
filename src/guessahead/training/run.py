"""A complete training: the model writes texts, the head is trained on them, and its files are saved."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from guessahead.errors import ModelError, ParameterError
from guessahead.files import read_text
from guessahead.heads.files import whole
from guessahead.runners.solo import solo
from guessahead.training.batch import Text, Writing, WritingRequest, write
from guessahead.training.chats import Frame, chats
from guessahead.training.shards import Store, read
from guessahead.training.target import Target
from guessahead.types import Int32

if TYPE_CHECKING:
    from guessahead.model import LanguageModel
    from guessahead.training.fit import Progress, Recipe, Trainer

SLOTS: Final = 56  # texts at a time: a pass has 64 rows, and a new text needs several
CHATS: Final = 192  # chats per shard
HELD_OUT: Final = 60  # texts per test
_PIECE: Final = 512  # tokens per piece of a file


@dataclass(frozen=True, slots=True)
class Places:
    """The folders of a training. data: shards. head: the files of the head, and `checkpoint.pt`."""

    data: Path
    head: Path

    @property
    def checkpoint(self) -> Path:
        return self.head / "checkpoint.pt"


def fused_layers(num_layers: int) -> tuple[int, int, int]:
    """A low, a middle and a high layer, as in EAGLE-3."""
    if num_layers < 4:
        raise ModelError(f"a model of {num_layers} layers: a head requires 4 or more")
    return min(1, num_layers // 2 - 2), num_layers // 2 - 1, num_layers - 2


def store_of(target: Target, folder: Path) -> Store:
    """The folder of this model's shards."""
    layers = ",".join(map(str, captured(target)))
    return Store(folder, f"{target.fingerprint} {layers}")


def captured(target: Target) -> tuple[int, ...]:
    """Layers whose hidden states are stored: those that are fused, and the last for the teacher."""
    layers = target.config.num_layers
    return (*fused_layers(layers), layers - 1)


def write_chats(
    lm: LanguageModel, target: Target, store: Store, num_tokens: int, progress: Callable[[int], None]
) -> list[Path]:
    """Shards of chats with at least this many tokens, existing ones included. progress: tokens so far."""
    frame = Frame.of(lm.chat_template, lm.tokenizer)
    layers, paths, total = captured(target), [], 0

    def make(number: int) -> list[Text]:
        return list(write(solo(lm.runner).engine, chats(frame, lm.tokenizer, number, CHATS), layers, SLOTS))

    for number in store.fill(1 << 20, make):
        paths.append(store.path(number))
        total += len(read(store.path(number)).token_ids)
        progress(total)
        if total >= num_tokens:
            break
    return paths


def read_files(lm: LanguageModel, target: Target, folder: Path, files: Sequence[Path]) -> list[Path]:
    """A shard of each text file, in pieces. Raises ParameterError for a file that is not text."""
    paths = []
    for file in files:
        try:
            text = read_text(file)
        except (OSError, UnicodeDecodeError) as error:
            raise ParameterError(f"{file}: not a text file ({error})") from None
        ids = np.array(lm.tokenizer.encode(text), np.int32)
        if len(ids) < 4:
            raise ParameterError(f"{file}: too short to train on")
        store = store_of(target, folder / f"file-{_digest(ids)}")
        pieces = [ids[begin : begin + _PIECE] for begin in range(0, len(ids), _PIECE)]
        make = lambda _, pieces=pieces: list(  # noqa: E731
            write(solo(lm.runner).engine, [_given(piece) for piece in pieces], captured(target), SLOTS)
        )
        paths += [store.path(number) for number in store.fill(1, make)]
    return paths


def prepare(
    target: Target, paths: Sequence[Path], places: Places, recipe: Recipe, vocab_size: int
) -> tuple[Trainer, Int32]:
    """A trainer, at its checkpoint if there is one, and the tokens of the head's vocabulary.

    Raises ParameterError if there is too little text, or a checkpoint of another head.
    """
    import torch

    from guessahead.training.data import Corpus
    from guessahead.training.fit import Teacher, Trainer
    from guessahead.training.network import Head, Shape

    torch.manual_seed(recipe.seed)
    c = target.config
    corpus = Corpus(paths)
    if corpus.num_tokens < recipe.time * recipe.batch or not corpus.num_held_out:
        raise ParameterError("too little text to train on and to test with: let the model write more")
    state = torch.load(places.checkpoint, weights_only=True) if places.checkpoint.exists() else None
    if state is None:
        draft_ids = most_frequent(corpus.counts(c.vocab_size), vocab_size)
    else:
        draft_ids = state["draft_ids"].numpy()
    shape = Shape(
        width=c.width,
        ffn_width=c.ffn_width,
        num_heads=c.num_heads,
        num_kv_heads=c.num_kv_heads,
        head_dim=c.head_dim,
        num_layers=len(fused_layers(c.num_layers)),
        vocab_size=len(draft_ids),
        norm_epsilon=c.norm_epsilon,
        rope_base=c.rope_base,
    )
    head = Head(shape, torch.from_numpy(target.embeddings))
    kept = torch.from_numpy(draft_ids.astype(np.int64))
    output, norm = torch.from_numpy(target.output), torch.from_numpy(target.norm)
    layer = None
    if target.layer is not None:
        layer = {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in target.layer.items()}
    head.start_from(output[kept], norm, layer)
    trainer = Trainer(head, Teacher(norm, output, kept, c.norm_epsilon), corpus, shape.num_layers, recipe)
    if state is not None:
        try:
            trainer.restore(state)
        except (RuntimeError, KeyError, ValueError):
            raise ParameterError(f"{places.checkpoint} belongs to another head: use another folder") from None
    return trainer, draft_ids


def train(
    target: Target, trainer: Trainer, draft_ids: Int32, places: Places, every: float
) -> Iterator[Progress]:
    """Train to the end. With each measurement the head and its checkpoint are saved."""
    import torch

    from guessahead.training.export import to_files

    def save() -> None:
        places.head.mkdir(parents=True, exist_ok=True)
        with whole(places.checkpoint) as unfinished, unfinished.open("wb") as stream:
            torch.save(trainer.state() | {"draft_ids": torch.from_numpy(draft_ids)}, stream)
        layers = fused_layers(target.config.num_layers)
        to_files(trainer.weights(), target.config, target.fingerprint, layers, draft_ids).save(places.head)

    if trainer.tokens >= trainer.goal:
        save()  # the training was complete; the files may be older or in another folder
    yield from trainer.run(every, HELD_OUT, save)


def most_frequent(counts: Int32, num: int) -> Int32:
    """The `num` most frequent tokens, ascending; of equally frequent ones the first."""
    return np.sort(np.argsort(-counts, kind="stable")[:num]).astype(np.int32)


def _given(ids: Int32) -> Writing:
    yield WritingRequest(ids)


def _digest(ids: Int32) -> str:
    return hashlib.sha256(ids.tobytes()).hexdigest()[:12]

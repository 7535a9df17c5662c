"""Batches from shards: texts without duplicates, some held out, cut into windows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import Tensor

from guessahead.training.shards import Shard, read
from guessahead.types import Int32

_HELD_OUT: Final = 40  # one in this many texts


@dataclass(frozen=True, slots=True)
class Batch:
    """Windows of concatenated texts.

    token_ids: int64[batch, time]. hidden: bfloat16[batch, time, layers, width]. text: int64[batch, time], the
        number of the text. wanted: bool[batch, time], tokens that a head has to guess.
    """

    token_ids: Tensor
    hidden: Tensor
    text: Tensor
    wanted: Tensor


class Corpus:
    """All texts of some shards. Texts with the same prompt count once, so none is on both sides."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._shards = [read(path) for path in paths]
        self._train: list[tuple[int, int]] = []  # shard, text
        self._held_out: list[tuple[int, int]] = []
        known: set[bytes] = set()
        for number, shard in enumerate(self._shards):
            for text in range(len(shard.starts) - 1):
                asked = _asked(shard, text)
                if asked in known or shard.starts[text + 1] - shard.starts[text] < 4:
                    continue
                known.add(asked)
                held_out = int.from_bytes(asked[:4], "little") % _HELD_OUT == 0
                (self._held_out if held_out else self._train).append((number, text))

    @property
    def num_tokens(self) -> int:
        """The number of tokens to train on."""
        return sum(self._length(*each) for each in self._train)

    @property
    def num_held_out(self) -> int:
        """Texts."""
        return len(self._held_out)

    def counts(self, vocab_size: int) -> Int32:
        """The count of each token in the texts to train on."""
        total = np.zeros(vocab_size, np.int64)
        for number, text in self._train:
            total += np.bincount(
                self._shards[number].token_ids[self._span(number, text)], minlength=vocab_size
            )
        return total.astype(np.int32)

    def epoch(self, seed: int, time: int, batch: int) -> Iterator[Batch]:
        """All texts to train on, in random order, cut into windows; the last few may be omitted."""
        rng = np.random.default_rng(seed)
        order = [self._train[i] for i in rng.permutation(len(self._train))]
        room = time * batch
        waiting: list[tuple[int, int]] = []
        filled = 0
        for each in order:
            waiting.append(each)
            filled += self._length(*each)
            if filled >= room:
                yield self._batch(waiting, time, batch)
                waiting, filled = [], 0

    def held_out(self, most: int) -> Iterator[Batch]:
        """Each held-out text by itself."""
        for each in self._held_out[:most]:
            yield self._batch([each], self._length(*each), 1)

    def _span(self, number: int, text: int) -> slice:
        starts = self._shards[number].starts
        return slice(int(starts[text]), int(starts[text + 1]))

    def _length(self, number: int, text: int) -> int:
        span = self._span(number, text)
        return int(span.stop - span.start)

    def _batch(self, texts: list[tuple[int, int]], time: int, batch: int) -> Batch:
        room = time * batch
        spans = [(self._shards[number], self._span(number, text)) for number, text in texts]
        tokens = np.concatenate([shard.token_ids[span] for shard, span in spans])[:room]
        wanted = np.concatenate([_wanted(shard, span) for shard, span in spans])[:room]
        hidden = np.concatenate([shard.hidden[span] for shard, span in spans])[:room]
        number = np.concatenate([np.full(span.stop - span.start, i) for i, (_, span) in enumerate(spans)])[
            :room
        ]

        def fold(values: Tensor) -> Tensor:
            return values.reshape(batch, time, *values.shape[1:])

        return Batch(
            fold(torch.from_numpy(tokens.astype(np.int64))),
            fold(torch.from_numpy(hidden).view(torch.bfloat16)),
            fold(torch.from_numpy(number)),
            fold(torch.from_numpy(wanted)),
        )


def _wanted(shard: Shard, span: slice) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """All tokens from the model's first one on: its answers, and its second user turn."""
    answer = shard.answer[span]
    first = int(np.argmax(answer)) if answer.any() else 0
    return np.arange(span.stop - span.start) >= first


def _asked(shard: Shard, text: int) -> bytes:
    """A hash of the tokens before the first answer."""
    span = slice(int(shard.starts[text]), int(shard.starts[text + 1]))
    answer = shard.answer[span]
    end = int(np.argmax(answer)) if answer.any() else len(answer)
    return hashlib.sha256(shard.token_ids[span][:end].tobytes()).digest()

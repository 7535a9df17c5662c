"""Recorded text plays the target, in virtual time: drafters and controllers are compared with no model.

The engine answers every row with the token that the recording has there, whatever was guessed, and moves a
clock on by what the pass would have cost. Hand the same clock to the decoder, and every time it reports is
virtual, exact and the same on every machine. A second replay engine with an accuracy below one plays a draft
model. Text is the only thing it knows: sampling parameters make no difference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING

import numpy as np

from guessahead.errors import ParameterError, PromptError, StateError
from guessahead.protocols import EngineInfo, PassOutput, Rows
from guessahead.types import Float32, Int32

if TYPE_CHECKING:
    from guessahead.protocols import DraftHead


class VirtualClock:
    """A clock that only moves when it is told to. Call it to read it."""

    def __init__(self) -> None:
        self._now = 0.0

    def __call__(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds


@dataclass(frozen=True, slots=True)
class ReplayCosts:
    """What passes cost. seconds: of a one-row pass over an empty cache.

    v: v[m - 1] = time of m rows over that of one row, v[0] == 1; beyond its end it goes on with its last
        slope (a single entry: every pass costs the same).
    context_slope: added to v per cached token and row.
    """

    seconds: float = 1.0
    v: tuple[float, ...] = (1.0,)
    context_slope: float = 0.0

    def of(self, num_rows: int, context: int) -> float:
        """Seconds of a pass of num_rows rows behind `context` cached tokens."""
        known = len(self.v)
        slope = self.v[-1] - self.v[-2] if known > 1 else 0.0
        v = self.v[min(num_rows, known) - 1] + slope * max(0, num_rows - known)
        return self.seconds * (v + self.context_slope * context * num_rows)


@dataclass(frozen=True, slots=True)
class Recording:
    """A prompt and the answer that a model gave. category: what kind of text it is."""

    name: str
    category: str
    prompt_ids: Int32
    token_ids: Int32


def recordings() -> list[Recording]:
    """What SmolLM2-135M-Instruct answered, greedily, to data/workload.jsonl: up to 256 tokens each."""
    with (
        resources.files("guessahead.data").joinpath("recorded.npz").open("rb") as file,
        np.load(file, allow_pickle=False) as data,
    ):
        parts = np.split(data["token_ids"].astype(np.int32), data["bounds"][1:-1])
        pairs = zip(data["names"].tolist(), data["categories"].tolist(), strict=True)
        return [
            Recording(name, category, parts[2 * i], parts[2 * i + 1])
            for i, (name, category) in enumerate(pairs)
        ]


class ReplaySequence:
    """The cache is a number: how many tokens it holds."""

    def __init__(self, length: int = 0) -> None:
        self._length: int | None = length
        self.tentative: list[int] = []  # parent of each row of the last pass, from the chosen one on
        self.first_row = 0

    @property
    def length(self) -> int:
        if self._length is None:
            raise StateError("this sequence is closed")
        return self._length

    def feed(self, num_rows: int) -> None:
        self._length = self.length + num_rows

    def keep(self, path: Int32) -> None:
        parent = self.first_row
        for row in path.tolist():
            index = row - self.first_row
            if not 0 < index < len(self.tentative) or self.tentative[index] != parent:
                raise StateError(f"row {row} is not a tentative child of row {parent}")
            parent = row
        self.feed(len(path))
        self.tentative = []

    def rollback(self, length: int) -> None:
        if not 0 <= length <= self.length:
            raise StateError(f"cannot roll back to {length}: the sequence has {self.length} tokens")
        self._length, self.tentative = length, []

    def fork(self) -> ReplaySequence:
        return ReplaySequence(self.length)

    def close(self) -> None:
        self._length = None


class ReplayEngine:
    """An Engine whose choice after position p is text[p + 1]; past the end of the text, its last token.

    text: prompt and answer. accuracy: how often the choice is the recorded one: a number, or a function of
    the position that is chosen; elsewhere it is the next token id (decided by seed and position alone, so
    that runs repeat). Its logits claim that accuracy as the probability of what it chooses.
    """

    def __init__(
        self,
        text: Sequence[int] | Int32,
        costs: ReplayCosts,
        clock: VirtualClock,
        *,
        vocab_size: int = 49152,
        accuracy: float | Callable[[int], float] = 1.0,
        seed: int = 0,
        max_rows: int = 64,
    ) -> None:
        if len(text) == 0:
            raise ParameterError("there is no text to replay")
        self._text = np.asarray(text, np.int32)
        self._costs, self._clock, self._accuracy = costs, clock, accuracy
        self._luck = np.random.default_rng(seed).random(len(text) + 1)
        self.info = EngineInfo(
            name="replay",
            architecture="replay",
            num_layers=1,
            vocab_size=vocab_size,
            context_length=len(text) + 1,
            bytes_per_pass=int(costs.seconds * 1e9),  # of a memory that reads 1 GB/s
            max_rows=max_rows,
        )

    def new_sequence(self) -> ReplaySequence:
        return ReplaySequence()

    def head(self, path: str = "") -> DraftHead | None:
        return None

    def forward(self, requests: Sequence[Rows]) -> list[PassOutput]:
        return [self._forward(rows) for rows in requests]

    def _forward(self, rows: Rows) -> PassOutput:
        sequence, num_rows = rows.sequence, len(rows.token_ids)
        if not isinstance(sequence, ReplaySequence):
            raise ParameterError("the sequence belongs to another engine")
        last = num_rows - 1 if rows.choose_from is None else rows.choose_from
        parents = range(-1, num_rows - 1) if rows.parents is None else rows.parents.tolist()
        num_passes = self._spend(num_rows, sequence.length)
        sequence.feed(last + 1)
        if sequence.length > self.info.context_length:
            raise PromptError("the recorded text is over")
        sequence.first_row, sequence.tentative = last, list(parents[last:])
        if rows.want_logits == "all":
            chosen, logits = np.full(num_rows, -1, np.int32), self._judge(sequence)
        else:
            chosen, logits = self._choose_path(rows, parents, last, sequence.length)
        return PassOutput(chosen, logits or None, num_passes=num_passes)

    def _judge(self, sequence: ReplaySequence) -> dict[int, Float32]:
        """The logits of the last committed row and of all tentative ones."""
        first, positions = sequence.first_row, [sequence.length]
        logits: dict[int, Float32] = {}
        for parent in sequence.tentative[1:]:
            positions.append(positions[parent - first] + 1)
        for row, position in enumerate(positions, first):
            logits[row] = self._logits(*self._choose(position))
        return logits

    def _choose_path(
        self, rows: Rows, parents: Sequence[int], row: int, position: int
    ) -> tuple[Int32, dict[int, Float32]]:
        """The tokens chosen from `row` on along the guesses that are right, and their logits if wanted."""
        num_rows = len(rows.token_ids)
        logits: dict[int, Float32] = {}
        chosen = np.full(num_rows, -1, np.int32)
        while row >= 0 and rows.context is not None:
            token, claimed = self._choose(position)
            if rows.want_logits == "path":
                logits[row] = self._logits(token, claimed)
            chosen[row] = token
            children = range(row + 1, num_rows)
            row = next((i for i in children if parents[i] == row and rows.token_ids[i] == token), -1)
            position += 1
        return chosen, logits

    def _spend(self, num_rows: int, context: int) -> int:
        """Move the clock on; returns the number of passes."""
        num_passes = 0
        while num_rows > 0:
            size = min(num_rows, self.info.max_rows)
            self._clock.advance(self._costs.of(size, context))
            num_rows, context, num_passes = num_rows - size, context + size, num_passes + 1
        return num_passes

    def _choose(self, position: int) -> tuple[int, float]:
        """The token at a position, and the probability it claims."""
        position = min(position, len(self._text) - 1)
        token = int(self._text[position])
        claimed = self._accuracy(position) if callable(self._accuracy) else self._accuracy
        right = self._luck[position] < claimed
        return (token if right else (token + 1) % self.info.vocab_size), claimed

    def _logits(self, token: int, claimed: float) -> Float32:
        logits = np.zeros(self.info.vocab_size, np.float32)
        claimed = min(max(claimed, 1e-6), 1 - 1e-6)
        logits[token] = np.log(claimed / (1 - claimed) * (self.info.vocab_size - 1))
        return logits

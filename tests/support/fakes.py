"""Doubles without weights: engines that follow the protocol to the letter, and a tokenizer of bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from guessahead.core import sampling, tree
from guessahead.drafters import registry
from guessahead.drafters.base import Drafter, DrafterResources
from guessahead.errors import ParameterError, PromptError, StateError, TokenizerError
from guessahead.protocols import EngineInfo, PassOutput, Rows
from guessahead.runners.solo import SpeculativeDecoder
from guessahead.types import ChoiceContext, Chunk, Draft, Float32, Generation, Int32, Request, SamplingParams


class FakeTokenizer:
    """One token per entry of `pieces` (bytes); a token in `eos_ids` has no text."""

    bos_id: int | None = None
    adds_bos = False

    def __init__(self, pieces: Sequence[bytes], eos_ids: Sequence[int] = ()) -> None:
        self.pieces = list(pieces)
        self.eos_ids = tuple(eos_ids)
        self.vocab_size = len(self.pieces)

    def encode_chat(self, text: str) -> list[int]:
        return self.encode(text, special=True)

    def encode(self, text: str, *, special: bool = False, bos: bool = True) -> list[int]:
        """Byte by byte, those without a token left out; special: "<eos>" stands for the first EOS token."""
        if special and self.eos_ids and "<eos>" in text:
            head, _, rest = text.partition("<eos>")
            return [*self.encode(head), self.eos_ids[0], *self.encode(rest, special=True)]
        known = [bytes([byte]) for byte in text.encode()]
        return [self.pieces.index(byte) for byte in known if byte in self.pieces]

    def token_bytes(self, token_id: int, *, special: bool = False) -> bytes:
        return b"" if token_id in self.eos_ids else self.pieces[token_id]

    def decode(self, token_ids: Sequence[int]) -> str:
        return b"".join(self.token_bytes(token) for token in token_ids).decode(errors="replace")

    def check_same(self, other: FakeTokenizer) -> None:
        for token, (mine, theirs) in enumerate(zip(self.pieces, other.pieces, strict=False)):
            if mine != theirs:
                raise TokenizerError(
                    f"the tokenizers differ: id {token} is {mine!r} here and {theirs!r} there"
                )


def letters(vocab_size: int, eos_ids: Sequence[int] = ()) -> FakeTokenizer:
    """Token i is the letter number i from "A" on."""
    return FakeTokenizer([chr(65 + i).encode() for i in range(vocab_size)], eos_ids)


class FakeTemplate:
    """<role>content... and "<assistant>" at the end, in the alphabet of a byte tokenizer."""

    def render(self, messages: Sequence[Any], system: str | None = None) -> str:
        head = f"<system>{system}" if system is not None else ""
        return head + "".join(f"<{m['role']}>{m['content']}" for m in messages) + "<assistant>"


class FakeSequence:
    """The cache is the list of cached tokens."""

    def __init__(self, engine: FakeEngine, tokens: Sequence[int] = ()) -> None:
        self._engine = engine
        self.tokens = list(tokens)
        self.pending_rows: list[tuple[int, int]] = []  # (parent row, token) of the last forward
        self.choose_from = -1
        self.closed = False
        engine.num_open += 1

    @property
    def length(self) -> int:
        self.check_open()
        return len(self.tokens)

    def keep(self, path: Int32) -> None:
        self.check_open()
        parent = self.choose_from
        for row in path.tolist():
            if not self.choose_from < row < len(self.pending_rows) or self.pending_rows[row][0] != parent:
                raise StateError(f"keep: row {row} is not a tentative child of row {parent}")
            parent = row
        self.tokens += [self.pending_rows[row][1] for row in path.tolist()]
        self.pending_rows = []

    def rollback(self, length: int) -> None:
        self.check_open()
        if not 0 <= length <= len(self.tokens):
            raise StateError(f"rollback to {length} of {len(self.tokens)}")
        self.pending_rows = []
        del self.tokens[length:]

    def fork(self) -> FakeSequence:
        self.check_open()
        return type(self)(self._engine, self.tokens)

    def close(self) -> None:
        self.check_open()
        self.closed = True
        self._engine.num_open -= 1

    def check_open(self) -> None:
        if self.closed:
            raise StateError("the sequence is closed")


class FakeEngine:
    """An Engine whose logits are a function of the token ids of a row and its ancestors: `logits_after`.

    num_open: sequences not closed yet. calls: every Rows it was given.
    histories: a row's hidden state of layer l is (l, i), where histories[i] are the tokens up to the row.
    """

    sequence_type: type[FakeSequence] = FakeSequence

    def __init__(self, vocab_size: int, context_length: int = 4096, max_rows: int = 64) -> None:
        self.info = EngineInfo(
            name="fake",
            architecture="fake",
            num_layers=2,
            vocab_size=vocab_size,
            context_length=context_length,
            bytes_per_pass=1000,
            max_rows=max_rows,
        )
        self.num_open = 0
        self.calls: list[Rows] = []
        self.histories: list[tuple[int, ...]] = []
        self._numbers: dict[tuple[int, ...], int] = {}

    def logits_after(self, token_ids: tuple[int, ...]) -> Float32:
        raise NotImplementedError

    def new_sequence(self) -> FakeSequence:
        return self.sequence_type(self)

    def head(self, path: str = "") -> None:
        return None

    def forward(self, requests: Sequence[Rows]) -> list[PassOutput]:
        sequences = {id(request.sequence) for request in requests}
        if len(sequences) < len(requests):
            raise ParameterError("every request needs a sequence of its own")
        return [self._forward_one(request) for request in requests]

    def _forward_one(self, rows: Rows) -> PassOutput:
        sequence, num_rows = rows.sequence, len(rows.token_ids)
        assert isinstance(sequence, FakeSequence)
        sequence.check_open()
        last = num_rows - 1 if rows.choose_from is None else rows.choose_from
        token_ids = rows.token_ids.tolist()
        as_draft = Draft(rows.token_ids, rows.parents)
        parents = tree.parents_of(as_draft).tolist()
        self._check(rows, last, parents)
        if tree.positions(as_draft, sequence.length).max() >= self.info.context_length:
            raise PromptError("the context is full")
        sequence.pending_rows = list(zip(parents, token_ids, strict=True))
        sequence.choose_from = last
        sequence.tokens += token_ids[: last + 1]
        self.calls.append(rows)
        chosen = np.full(num_rows, -1, np.int32)
        logits: dict[int, Float32] = {}
        if rows.context is not None and rows.want_logits == "all":
            logits = self._all_logits(sequence)
        elif rows.context is not None:
            self._choose(rows.context, sequence, chosen, logits)
        num_passes = -(-num_rows // self.info.max_rows)
        hidden = self._hidden(rows.want_hidden, sequence, last) if rows.want_hidden else None
        return PassOutput(chosen, logits if rows.want_logits != "none" else None, hidden, num_passes)

    def number_of(self, history: tuple[int, ...]) -> int:
        """Its index in `histories`."""
        if history not in self._numbers:
            self._numbers[history] = len(self.histories)
            self.histories.append(history)
        return self._numbers[history]

    def _hidden(self, layers: tuple[int, ...], sequence: FakeSequence, last: int) -> dict[int, Float32]:
        before = tuple(sequence.tokens[: len(sequence.tokens) - last - 1])
        paths: dict[int, tuple[int, ...]] = {-1: before}
        for row, (parent, token) in enumerate(sequence.pending_rows):
            paths[row] = (*paths[parent], token)
        numbers = [self.number_of(paths[row]) for row in range(len(sequence.pending_rows))]
        return {layer: np.array([(layer, number) for number in numbers], np.float32) for layer in layers}

    def _all_logits(self, sequence: FakeSequence) -> dict[int, Float32]:
        paths = {sequence.choose_from: tuple(sequence.tokens)}
        for row in range(sequence.choose_from + 1, len(sequence.pending_rows)):
            parent, token = sequence.pending_rows[row]
            paths[row] = (*paths[parent], token)
        return {row: self.logits_after(path) for row, path in paths.items()}

    def _choose(
        self, context: ChoiceContext, sequence: FakeSequence, chosen: Int32, logits: dict[int, Float32]
    ) -> None:
        """Along the chosen path, and nowhere else."""
        row, path = sequence.choose_from, []
        while row >= 0:
            logits[row] = self.logits_after((*sequence.tokens, *path))
            token = self.choose_one(logits[row], context, path)
            chosen[row] = token
            path.append(token)
            tentative = range(sequence.choose_from + 1, len(sequence.pending_rows))
            row = next((child for child in tentative if sequence.pending_rows[child] == (row, token)), -1)

    def choose_one(self, logits: Float32, context: ChoiceContext, path: list[int]) -> int:
        return sampling.choose(logits, context, path)

    def _check(self, rows: Rows, last: int, parents: list[int]) -> None:
        token_ids, num_rows = rows.token_ids, len(rows.token_ids)
        if token_ids.dtype != np.int32 or (rows.parents is not None and rows.parents.dtype != np.int32):
            raise ParameterError("token ids and parents are int32 arrays")
        if num_rows == 0 or not 0 <= last < num_rows or num_rows - last > self.info.max_rows:
            raise ParameterError(f"{num_rows} rows, of which the tentative ones follow row {last}")
        if token_ids.min() < 0 or token_ids.max() >= self.info.vocab_size:
            raise ParameterError("a token id is outside the vocabulary")
        in_order = all(-1 <= parent < row for row, parent in enumerate(parents))
        if (
            not in_order
            or parents[: last + 1] != list(range(-1, last))
            or any(parent < last for parent in parents[last + 1 :])
        ):
            raise ParameterError("committed rows are a chain, tentative ones hang below its last row")
        if rows.context is not None and (
            len(rows.context.history) != len(rows.sequence.tokens) + last + 1  # type: ignore[attr-defined]
            or rows.context.history[-1] != token_ids[last]
        ):
            raise ParameterError("the history must end with the last committed row")


class TinyEngine(FakeEngine):
    """Random logits, peaked, mostly from the last two tokens, and a little from all that is cached.

    So text repeats itself now and then, and a cache that holds anything wrong shows in every logit.
    seed: which model this is. like: another model that this one resembles (a draft model of it).
    rare: tokens made less likely.
    """

    def __init__(
        self,
        vocab_size: int = 24,
        context_length: int = 4096,
        max_rows: int = 64,
        seed: int = 0,
        like: TinyEngine | None = None,
        rare: Sequence[int] = (),
    ) -> None:
        super().__init__(vocab_size, context_length, max_rows)
        self._seed = seed
        self._like = like
        self._rare = list(rare)
        self._known: dict[tuple[int, ...], Float32] = {}

    def logits_after(self, token_ids: tuple[int, ...]) -> Float32:
        logits = 3.0 * self._noise(token_ids[-1:]) + 1.5 * self._noise(token_ids[-2:])
        logits += 0.5 * self._noise((len(token_ids), hash(token_ids) & 0xFFFFFFFF))
        logits[self._rare] -= 2.0
        if self._like is not None:
            shared = min(self.info.vocab_size, self._like.info.vocab_size)
            logits = logits * 0.3
            logits[:shared] += self._like.logits_after(token_ids)[:shared]
        return logits.astype(np.float32)

    def _noise(self, key: tuple[int, ...]) -> Float32:
        if key not in self._known:
            generator = np.random.default_rng([self._seed, *key])
            self._known[key] = generator.standard_normal(self.info.vocab_size).astype(np.float32)
        return self._known[key]


class ScriptEngine(FakeEngine):
    """Chooses script[t] for position t, whatever came before (positions of the prompt are placeholders)."""

    def __init__(self, script: Sequence[int], vocab_size: int = 64, **limits: int) -> None:
        super().__init__(vocab_size, **limits)
        self._script = list(script)

    def logits_after(self, token_ids: tuple[int, ...]) -> Float32:
        logits = np.zeros(self.info.vocab_size, np.float32)
        logits[self._script[len(token_ids) % len(self._script)]] = 9.0
        return logits


def request(prompt: Sequence[int], max_tokens: int = 24, gamma: int = 4, **rest: Any) -> Request:
    """A Request; settings of SamplingParams are taken among the rest (seed 0 unless told)."""
    names = [each.name for each in fields(SamplingParams)]
    settings = {"seed": 0} | {name: rest.pop(name) for name in names if name in rest}
    return Request(np.array(prompt, np.int32), SamplingParams(**settings), max_tokens, gamma, **rest)


def decode_stream(
    engine: Any, drafter: Drafter, tokenizer: Any, asked: Request
) -> tuple[list[Chunk], Generation]:
    """All chunks and the result of one generation."""
    steps = SpeculativeDecoder(engine, drafter, tokenizer).stream(asked)
    chunks = []
    while True:
        try:
            chunks.append(next(steps))
        except StopIteration as end:
            return chunks, end.value


def decode(engine: Any, drafter: Drafter, tokenizer: Any, asked: Request) -> Generation:
    """One generation on fakes, which must leave no sequence open."""
    generation = SpeculativeDecoder(engine, drafter, tokenizer).generate(asked)
    assert engine.num_open == 0
    return generation


def plain(engine: Any, tokenizer: Any, asked: Request) -> Generation:
    return decode(engine, registry.make("none", {}, DrafterResources(engine)), tokenizer, asked)

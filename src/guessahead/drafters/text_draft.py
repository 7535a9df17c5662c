"""A second model with another tokenizer guesses text, which becomes guesses in the target's tokens.

The committed text is read in the draft model's own tokens (translation.py), it writes a few of them, each
its likeliest, and what they say is cut into the target's tokens. Under sampling the noise cannot be shared,
as it belongs to token ids; the likeliest text is then the best guess. The target verifies every token, so
whatever goes wrong on the way costs guesses and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Final

import numpy as np

from guessahead.drafters.base import Setup
from guessahead.drafters.draft_model import DraftModel, DraftModelOptions
from guessahead.drafters.growth import Grown
from guessahead.engines.base import Rows
from guessahead.errors import ParameterError
from guessahead.text.retokenize import Piece, Reread, Rewritten
from guessahead.types import Choice, Draft, Float32, Int32, Verdict

_LEAST: Final = 0.02  # a sibling less likely than this costs a row for nothing


@dataclass(slots=True)
class _Written:
    """What the draft model wrote: its pieces, and for each piece others that could stand in its place.

    end: the draft model's end-of-text token, if it wrote one, and how sure it was.
    """

    pieces: list[Piece] = field(default_factory=list)
    beside: list[list[Piece]] = field(default_factory=list)
    end: tuple[int, float] | None = None


class TextDraftModel(DraftModel):
    """`draft-model` where the two tokenizers differ."""

    note = "another tokenizer: drafts as text"
    gives_dists: ClassVar[bool] = False  # its distributions are over another vocabulary

    def __init__(self, options: DraftModelOptions, setup: Setup) -> None:
        super().__init__(options, setup)
        if setup.tokenizer is None or setup.draft_tokenizer is None:
            raise ParameterError(f"drafter {self.name!r} needs both tokenizers to draft as text")
        self._target, self._own = setup.tokenizer, setup.draft_tokenizer
        self._restart()

    def _restart(self) -> None:
        self._reread = Reread(self._target, self._own)
        self._cached: list[int] = []  # the draft model's tokens in its cache
        self._num_prompt = self._num_known = 0

    def begin(self, prompt_ids: Int32, choice: Choice) -> None:
        super().begin(prompt_ids, choice)
        self._restart()

    def lag(self, choice: Choice) -> int:
        """In the target's tokens: those committed since it last drafted, and not guessed by it."""
        return len(choice.history) - self._num_known

    def propose(self, choice: Choice, budget: int) -> Draft:
        if not self._num_known:
            self._num_prompt = len(self._reread.read(choice.history[: choice.prompt_length]))
        settled = self._reread.num_settled
        ids = self._reread.read(choice.history)
        self._num_known, self._guesses = len(choice.history), []
        if not ids or len(ids) > self._engine.info.context_length:
            return Draft()
        fresh = self._catch_up(ids, settled)
        written = self._write(np.array(ids, np.int32), fresh, choice, budget)
        rewritten = Rewritten(self._target, self._reread.pending)
        main = self._main(written, rewritten)[:budget]
        self._guesses = [token for token, _ in main]
        beside = _beside(written, rewritten, self._guesses)
        grown = Grown(budget)
        for depth, guess in enumerate(main):
            grown.add([guess, *((token, chance) for (at, token), chance in beside.items() if at == depth)])
        return grown.draft()

    def observe(self, verdict: Verdict) -> None:
        """Its cache is put right by the next draft, by what the text says then."""
        for guess, token in zip(self._guesses, verdict.token_ids[:-1].tolist(), strict=False):
            if guess != token:
                break
            self._num_known += 1
        self._guesses = []

    def _catch_up(self, ids: list[int], settled: int) -> Int32:
        """Roll the cache back to what it has in common with `ids`; returns those to be read.

        settled: how many ids were settled before, so that the cache holds them.
        """
        same = min(settled, len(self._cached))
        most = min(len(self._cached), len(ids) - 1)
        while same < most and self._cached[same] == ids[same]:
            same += 1
        same = min(same, most)
        self._cache().rollback(same)
        del self._cached[same:]
        return np.array(ids[same:], np.int32)

    def _write(self, ids: Int32, fresh: Int32, choice: Choice, budget: int) -> _Written:
        """Let the draft model go on from `ids`, of which `fresh` are not in its cache."""
        written, own = _Written(), self._own
        params = replace(choice.params, temperature=0.0, logit_bias={}, min_tokens=0)
        choice = Choice(params, ids, min(self._num_prompt, len(ids)))
        room = self._engine.info.context_length + 1 - len(ids)
        for _ in range(min(budget, room)):
            [output] = self._engine.forward([Rows(self._cache(), fresh, choice=choice, want_logits=True)])
            self._cached += fresh.tolist()
            guess = int(output.chosen[-1])
            ranked = _ranked((output.logits or {})[len(fresh) - 1], guess, self._options.siblings)
            sure = ranked[0][1]
            if guess in own.eos_ids:
                written.end = (guess, sure)
                break
            pieces = [Piece(self._bytes(token), chance) for token, chance in ranked]
            if not pieces[0].data:
                break  # a control token, which is no text; or padding
            written.pieces.append(pieces[0])
            written.beside.append([piece for piece in pieces[1:] if piece.data])
            if sure < self._options.min_chance or (self.gate is not None and not self.gate.more(sure)):
                break
            fresh = np.array([guess], np.int32)
            choice = replace(choice, history=np.append(choice.history, fresh))
        return written

    def _main(self, written: _Written, rewritten: Rewritten) -> list[tuple[int, float]]:
        """The target's tokens for what was written, each with its chance."""
        end = self._end(written)
        main = rewritten.guesses(written.pieces, ended=end is not None)
        said_nothing = not written.pieces and not self._reread.pending
        return [*main, end] if end is not None and (main or said_nothing) else main

    def _end(self, written: _Written) -> tuple[int, float] | None:
        """The target's token for the end that the draft model wrote: of the same name, or its only one."""
        if written.end is None:
            return None
        token_id, chance = written.end
        named = self._target.encode(self._own.token_text(token_id), special=True, bos=False)
        ends = self._target.eos_ids
        if len(named) == 1 and named[0] in ends:
            return named[0], chance
        return (ends[0], chance) if len(ends) == 1 else None

    def _bytes(self, token_id: int) -> bytes:
        return self._own.token_bytes(token_id) if token_id < self._own.vocab_size else b""


def _beside(written: _Written, rewritten: Rewritten, main: list[int]) -> dict[tuple[int, int], float]:
    """(depth, token) -> chance: where the other pieces would first lead away from the main tokens."""
    found: dict[tuple[int, int], float] = {}
    before = b""
    for piece, others in zip(written.pieces, written.beside, strict=True):
        for other in others:
            ids = [token for token, _ in rewritten.ids(before + other.data)]
            pairs = enumerate(zip(ids, main, strict=False))
            depth = next((i for i, (token, usual) in pairs if token != usual), None)
            if depth is not None:
                key = (depth, ids[depth])
                found[key] = max(found.get(key, 0.0), other.chance)
        before += piece.data
    return found


def _ranked(logits: Float32, guess: int, siblings: int) -> list[tuple[int, float]]:
    """The guess and the likeliest other tokens, each with its probability."""
    weights = np.exp(logits - logits.max())
    chances = weights / weights.sum()
    likely = np.flatnonzero(chances >= _LEAST)
    others = sorted((-float(chances[token]), token) for token in likely.tolist() if token != guess)
    return [(guess, float(chances[guess])), *((token, -chance) for chance, token in others[:siblings])]

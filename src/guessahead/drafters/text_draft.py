"""The drafter with a second model of another tokenizer: its text is converted to the target's tokens.

The draft model reads the committed text in its own tokens (text/retokenize.py) and generates a few more, each
the most likely one; their text is encoded with the target's tokenizer. Under sampling the noise cannot be
shared, because it depends on token ids; the most likely text is then the best guess. The target verifies
every token, so errors of the conversion cost guesses and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from guessahead.drafters.base import DrafterResources
from guessahead.drafters.growth import Chain
from guessahead.drafters.model_base import DraftModelOptions, ModelDrafter
from guessahead.drafters.ranking import likeliest_text
from guessahead.errors import ParameterError
from guessahead.protocols import Rows
from guessahead.text.retokenize import Piece, Reread, Rewritten
from guessahead.types import NO_DRAFT, NOT_FINITE, Ask, ChoiceContext, Draft, HiddenStates, Int32, Verdict


@dataclass(slots=True)
class _Written:
    """The text of the draft model: its pieces, and for each piece its alternatives.

    end: the draft model's end-of-text token, if it generated one, and its probability.
    """

    pieces: list[Piece] = field(default_factory=list)
    alternatives: list[list[Piece]] = field(default_factory=list)
    end: tuple[int, float] | None = None


class TextDraftModel(ModelDrafter):
    """`draft-model` where the two tokenizers differ."""

    note = "another tokenizer: drafts as text"
    # It returns no distributions: those of its model are over another vocabulary.

    def __init__(self, options: DraftModelOptions, resources: DrafterResources) -> None:
        super().__init__(options, resources)
        if resources.tokenizer is None or resources.draft_tokenizer is None:
            raise ParameterError(f"drafter {self.name!r} needs both tokenizers to draft as text")
        self._target, self._own = resources.tokenizer, resources.draft_tokenizer
        self._target_vocab_size = resources.engine.info.vocab_size
        self._restart()

    def _restart(self) -> None:
        self._reread = Reread(self._target, self._own)
        self._cached: list[int] = []  # the draft model's tokens in its cache
        self._num_prompt = self._num_known = 0

    def begin(self, context: ChoiceContext) -> None:
        super().begin(context)
        self._restart()

    def lag(self, context: ChoiceContext) -> int:
        """Committed tokens since its last draft that it did not guess, counted in the target's tokens."""
        return len(context.history) - self._num_known

    def propose(self, ask: Ask) -> Draft:
        context, budget = ask.context, ask.budget
        if not self._num_known:
            self._num_prompt = len(self._reread.read(context.history[: context.prompt_length]))
        settled = self._reread.num_settled
        ids = self._reread.read(context.history)
        self._num_known, self._guesses = len(context.history), []
        info = self._engine.info
        outside = not ids or len(ids) > info.context_length or max(ids) >= info.vocab_size
        if outside or self.has_given_up:
            return NO_DRAFT
        fresh = self._catch_up(ids, settled)
        written = self._write(np.array(ids, np.int32), fresh, ask)
        rewritten = Rewritten(self._target, self._reread.pending, self._target_vocab_size)
        main = self._main(written, rewritten)[:budget]
        self._guesses = [token for token, _ in main]
        alternatives = _alternatives(written, rewritten, self._guesses)
        chain = Chain(budget)
        for depth, guess in enumerate(main):
            siblings = [(token, stated) for (at, token), stated in alternatives.items() if at == depth]
            chain.add([guess, *siblings])
        return chain.draft()

    def observe(self, verdict: Verdict, hidden: HiddenStates | None) -> None:
        """Count the right guesses; the next draft corrects the cache."""
        for guess, token in zip(self._guesses, verdict.token_ids[:-1].tolist(), strict=False):
            if guess != token:
                break
            self._num_known += 1
        self._guesses = []

    def _catch_up(self, ids: list[int], settled: int) -> Int32:
        """Roll the cache back to its common beginning with `ids`; returns the ids after it.

        settled: the number of ids that were settled before, so that the cache contains them.
        """
        same = min(settled, len(self._cached))
        most = min(len(self._cached), len(ids) - 1)
        while same < most and self._cached[same] == ids[same]:
            same += 1
        same = min(same, most)
        self._cache().rollback(same)
        del self._cached[same:]
        return np.array(ids[same:], np.int32)

    def _write(self, ids: Int32, fresh: Int32, ask: Ask) -> _Written:
        """Generate text with the draft model after `ids`, of which `fresh` are not in its cache."""
        written, own = _Written(), self._own
        params = replace(ask.context.params, temperature=0.0, logit_bias={}, min_tokens=0)
        context = ChoiceContext(params, ids, min(self._num_prompt, len(ids)))
        room = self._engine.info.context_length + 1 - len(ids)
        path_probability = 1.0
        for depth in range(min(ask.budget, room)):
            rows = Rows(self._cache(), fresh, context=context, want_logits="path")
            [output] = self._engine.forward([rows])
            self._cached += fresh.tolist()
            guess = int(output.chosen[-1])
            if guess == NOT_FINITE:
                self.give_up(f"the draft model {self._engine.info.name!r}")
                break
            ranked = likeliest_text((output.logits or {})[len(fresh) - 1], guess, self._options.siblings)
            probability = ranked[0][1]
            if guess in own.eos_ids:
                written.end = (guess, probability)
                break
            pieces = [Piece(self._bytes(token), probability) for token, probability in ranked]
            if not pieces[0].data:
                break  # a control token, which has no text; or padding
            written.pieces.append(pieces[0])
            written.alternatives.append([piece for piece in pieces[1:] if piece.data])
            if probability < self._options.min_probability:
                break
            if ask.stop is not None:
                path_probability *= ask.stop.calibrated(probability, depth)
                if not ask.stop.goes_on(path_probability, depth + 1):
                    break
            fresh = np.array([guess], np.int32)
            context = replace(context, history=np.append(context.history, fresh))
        return written

    def _main(self, written: _Written, rewritten: Rewritten) -> list[tuple[int, float]]:
        """The target's tokens of the draft model's text, each with its probability."""
        end = self._end(written)
        main = rewritten.guesses(written.pieces, ended=end is not None)
        said_nothing = not written.pieces and not self._reread.pending
        return [*main, end] if end is not None and (main or said_nothing) else main

    def _end(self, written: _Written) -> tuple[int, float] | None:
        """The target's token for the draft model's end of text: the one of the same name, or the only one."""
        if written.end is None:
            return None
        token_id, probability = written.end
        named = self._target.encode(self._own.token_text(token_id), special=True, bos=False)
        ends = [each for each in self._target.eos_ids if each < self._target_vocab_size]
        if len(named) == 1 and named[0] in ends:
            return named[0], probability
        return (ends[0], probability) if len(ends) == 1 else None

    def _bytes(self, token_id: int) -> bytes:
        return self._own.token_bytes(token_id) if token_id < self._own.vocab_size else b""


def _alternatives(written: _Written, rewritten: Rewritten, main: list[int]) -> dict[tuple[int, int], float]:
    """The probability of each alternative, by the (depth, token) at which it first differs."""
    found: dict[tuple[int, int], float] = {}
    before = b""
    for piece, others in zip(written.pieces, written.alternatives, strict=True):
        for other in others:
            ids = [token for token, _ in rewritten.ids(before + other.data)]
            pairs = enumerate(zip(ids, main, strict=False))
            depth = next((i for i, (token, usual) in pairs if token != usual), None)
            if depth is not None:
                key = (depth, ids[depth])
                found[key] = max(found.get(key, 0.0), other.probability)
        before += piece.data
    return found

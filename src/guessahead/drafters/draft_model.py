"""A second, smaller model with the same tokenizer guesses, token by token.

Its guesses are chosen with the target's own parameters and the target's own noise, so under sampling both
models pick the same token about as often as the best possible rejection scheme would accept one.
(Leviathan, Kalman, Matias 2023; the shared noise: Daliri, Musco, Suresh 2024.)
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from guessahead.drafters.base import Drafter, Setup
from guessahead.engines.base import Rows
from guessahead.errors import ParameterError, StateError
from guessahead.types import Choice, Draft, Int32, Verdict

if TYPE_CHECKING:
    from guessahead.engines.base import Engine, SequenceState


class DraftModel(Drafter):
    """Drafts a chain with a second engine that has a cache of its own.

    The cache always takes `context[its length:]`, so it does not matter how much of a draft was accepted,
    and the prompt is read by the first draft, not before the first token. Drafting ends, quietly, where the
    draft model's context is full or the text holds a token that its vocabulary lacks.
    """

    name: ClassVar[str] = "draft-model"
    needs_draft_engine: ClassVar[bool] = True

    def __init__(self, options: Any, setup: Setup) -> None:
        if setup.draft_engine is None:
            raise ParameterError(f"drafter {self.name!r} needs a second model")
        self._engine: Engine = setup.draft_engine
        self._target_vocab_size = setup.engine.info.vocab_size
        self._sequence: SequenceState | None = None
        self._num_committed = 0
        self._guesses: list[int] = []

    def begin(self, prompt_ids: Int32, choice: Choice) -> None:
        self._sequence = self._engine.new_sequence()

    def propose(self, choice: Choice, budget: int) -> Draft:
        sequence, info = self._cache(), self._engine.info
        self._num_committed, self._guesses = len(choice.history), []
        fresh = choice.history[sequence.length :]
        room = info.context_length + 1 - len(choice.history)  # the last guess is not fed
        if fresh.max() >= info.vocab_size:
            return Draft()
        for _ in range(min(budget, room)):
            [output] = self._engine.forward([Rows(sequence, fresh, choice=choice)])
            guess = int(output.chosen[-1])
            if guess >= self._target_vocab_size:
                break  # padding of a larger vocabulary
            self._guesses.append(guess)
            if guess in choice.eos_ids:
                break
            fresh = np.array([guess], np.int32)
            choice = replace(choice, history=np.append(choice.history, fresh))
        return Draft(np.array(self._guesses, np.int32))

    def observe(self, verdict: Verdict) -> None:
        """Forget the guesses that turned out wrong."""
        if not self._guesses:
            return
        num_right = 0
        for guess, token in zip(self._guesses, verdict.token_ids[:-1].tolist(), strict=False):
            if guess != token:
                break
            num_right += 1
        sequence = self._cache()
        sequence.rollback(min(sequence.length, self._num_committed + num_right))
        self._guesses = []

    def end(self) -> None:
        if self._sequence is not None:
            self._sequence.close()
            self._sequence = None

    def _cache(self) -> SequenceState:
        if self._sequence is None:
            raise StateError("the draft model was asked for a draft outside begin ... end")
        return self._sequence

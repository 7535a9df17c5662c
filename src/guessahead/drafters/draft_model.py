"""The drafter with a second, smaller model, which guesses token by token.

Its guesses are chosen with the target's own parameters and noise, so under sampling both models choose the
same token about as often as rejection sampling would accept a guess. For rejection sampling itself
(`Ask.draws` is set) each guess is sampled with independent noise and returned with its distribution. A model
with another tokenizer guesses text (text_draft.py). (Leviathan, Kalman, Matias 2023; the shared noise:
Daliri, Musco, Suresh 2024.)
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from guessahead.core import sampling
from guessahead.core.rejection import Use
from guessahead.drafters.growth import Chain
from guessahead.drafters.model_base import ModelDrafter
from guessahead.drafters.ranking import guess_and_siblings
from guessahead.protocols import Rows
from guessahead.types import (
    NO_DRAFT,
    NOT_ALLOWED,
    NOT_FINITE,
    Ask,
    ChoiceContext,
    Draft,
    Float32,
    Float64,
    HiddenStates,
    Verdict,
)

if TYPE_CHECKING:
    from guessahead.drafters.base import Drafter, DrafterResources
    from guessahead.drafters.model_base import DraftingOptions
    from guessahead.protocols import Engine
    from guessahead.types import Draws


class DraftModel(ModelDrafter):
    """The drafter: a second engine with its own cache makes a chain and siblings of its nodes.

    The cache always reads `history[its length:]`, however much of a draft was accepted, and the prompt is
    read for the first draft, after the first token. Drafting ends without an error if the draft model's
    context is full or the text contains a token that its vocabulary lacks.
    """

    note = "same tokenizer"
    gives_distributions: ClassVar[bool] = True

    @classmethod
    def make(cls, options: Any, resources: DrafterResources) -> Drafter:
        if resources.draft_tokenizer is None:
            return cls(options, resources)
        from guessahead.drafters.text_draft import TextDraftModel

        return TextDraftModel(options, resources)

    def _use(self, options: DraftingOptions, resources: DrafterResources, engine: Engine) -> None:
        super()._use(options, resources, engine)
        self._target_vocab_size = resources.engine.info.vocab_size
        self._num_committed = 0
        self._distributions: list[Float64] = []

    def lag(self, context: ChoiceContext) -> int:
        return len(context.history) - self._cache().length

    def propose(self, ask: Ask) -> Draft:
        sequence, info, context = self._cache(), self._engine.info, ask.context
        self._num_committed, self._guesses, self._distributions = len(context.history), [], []
        fresh = context.history[sequence.length :]
        room = info.context_length + 1 - len(context.history)  # the last guess is not fed
        if fresh.max() >= info.vocab_size or self.has_given_up:
            return NO_DRAFT
        chain, path_probability = Chain(ask.budget), 1.0
        for depth in range(min(ask.budget, room)):
            rows = Rows(sequence, fresh, context=context, want_logits="path")
            [output] = self._engine.forward([rows])
            if output.chosen[-1] == NOT_ALLOWED:
                break
            if output.chosen[-1] == NOT_FINITE:
                self.give_up(f"the draft model {info.name!r}")
                break
            logits = (output.logits or {})[len(fresh) - 1]
            ranked = self._next(int(output.chosen[-1]), logits, context, ask.draws)
            if not ranked:
                break
            chain.add(ranked)
            guess, probability = ranked[0]
            self._guesses.append(guess)
            if (
                guess in context.eos_ids
                or depth + 1 == ask.budget
                or probability < self._options.min_probability
            ):
                break
            if ask.stop is not None:
                path_probability *= ask.stop.calibrated(probability, depth)
                if not ask.stop.goes_on(path_probability, depth + 1):
                    break
            fresh = np.array([guess], np.int32)
            context = replace(context, history=np.append(context.history, fresh))
        draft = chain.draft()
        return replace(draft, distributions=tuple(self._distributions)) if self._distributions else draft

    def _next(
        self, chosen: int, logits: Float32, context: ChoiceContext, draws: Draws | None
    ) -> list[tuple[int, float]]:
        """The guess and its siblings with their probabilities; empty if the guess is padding of the
        vocabulary.

        A sampled guess has no siblings, and the stated probability is that of the most likely token: the
        sampled value must not influence whether it is tested.
        """
        inside = self._target_vocab_size
        if draws is None:
            if chosen >= inside:
                return []
            ranked = guess_and_siblings(logits, context, chosen, self._options.siblings)
            return [pair for pair in ranked if pair[0] < inside]
        q = sampling.probabilities(logits[:inside], context)
        guess = draws.pick(Use.GUESS, q, self._num_committed, len(self._guesses))
        self._distributions.append(q)
        return [(guess, float(q.max()))]

    def observe(self, verdict: Verdict, hidden: HiddenStates | None) -> None:
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

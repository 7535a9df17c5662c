"""The drafter with a draft head: a trained layer that guesses from the target's hidden states.

It needs no second model and little memory, and a guess costs a few percent of a pass. (EAGLE: Li, Wei, Zhang,
Zhang 2024, 2025.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from guessahead.core import sampling
from guessahead.core.rejection import Use
from guessahead.drafters.base import Drafter, DrafterResources, Prior
from guessahead.drafters.ranking import LEAST_SIBLING, NOISE_TRUST
from guessahead.errors import ParameterError, StateError
from guessahead.types import (
    NO_DRAFT,
    Ask,
    ChoiceContext,
    Draft,
    Float32,
    Float64,
    HiddenStates,
    Int32,
    TreeShape,
    Verdict,
)

if TYPE_CHECKING:
    from guessahead.protocols import DraftHead, HeadSequence

# The share of right guesses, by bucket of the head's stated probability: SmolLM2, sampled and greedy
# (docs/log.md).
_PRIOR: Final[Prior] = 2 * ((0.13, 0.31, 0.46, 0.59, 0.72, 0.79, 0.88, 0.9, 0.93, 0.98),)
# Maximum number of positions that it reads at once, the last ones: earlier ones do not help it (docs/log.md),
# and reading costs time.
_WINDOW: Final = 128


@dataclass(frozen=True, slots=True)
class HeadOptions:
    """path: folder of the head; "" = the one that belongs to the model, trained on this machine or shipped.

    branches: children of each guess, 1 to 8. width: guesses per level that get children, 1 to 8. They cost
        rows of the target's pass, but hardly any time of the head.
    """

    path: str = ""
    branches: int = 2
    width: int = 1

    def __post_init__(self) -> None:
        for name in ("branches", "width"):
            if not 1 <= getattr(self, name) <= 8:
                raise ParameterError(f"{name} must be from 1 to 8, not {getattr(self, name)}")


class Head(Drafter):
    """The drafter: a draft head of the target.

    Row t of the head's cache is made of the target's hidden states at t and the token at t + 1. Rows of
    guesses follow, made of the head's own states; they are dropped before the next draft.
    """

    name: ClassVar[str] = "head"
    Options: ClassVar[type] = HeadOptions
    needs_head: ClassVar[bool] = True
    pays_per_guess: ClassVar[bool] = True
    gives_distributions: ClassVar[bool] = True
    prior: ClassVar[Prior | None] = _PRIOR
    mean_prior: ClassVar[float] = 0.5

    def __init__(self, options: HeadOptions, resources: DrafterResources) -> None:
        head = resources.head(options.path) if resources.head is not None else None
        if head is None:
            raise ParameterError(
                f"drafter {self.name!r}: this model has no draft head; `guessahead train` makes one"
            )
        self._head: DraftHead = head
        self._options = options
        self._vocab_size = resources.engine.info.vocab_size
        self.needs_hidden = head.layers
        self.relative_cost = min(head.bytes_per_pass / max(resources.engine.info.bytes_per_pass, 1), 2.0)
        self._sequence: HeadSequence | None = None
        self._begin = 0  # position of the first row of the head's cache
        self._num_read = 0  # rows of it that are not guesses
        self._waiting: list[Mapping[int, Float32]] = []  # hidden states not read yet
        self._num_waiting = 0

    def begin(self, context: ChoiceContext) -> None:
        self._restart(0)

    def observe(self, verdict: Verdict, hidden: HiddenStates | None) -> None:
        if hidden is None:
            return
        if hidden.first != self._next:
            self._restart(hidden.first)  # the earlier positions were already in the target's cache
        self._waiting.append(hidden.layers)
        self._num_waiting += len(hidden.layers[self._head.layers[0]])
        if self._num_waiting > 2 * _WINDOW:
            self._skip()

    def lag(self, context: ChoiceContext) -> int:
        return min(self._num_waiting, _WINDOW)

    def propose(self, ask: Ask) -> Draft:
        if self._num_waiting > _WINDOW:
            self._skip()
        sequence, end, context = self._opened(), self._next, ask.context
        if self._num_waiting == 0 or end != len(context.history) - 1:
            return NO_DRAFT  # no hidden states of the target yet
        room = self._head.context_length - self._num_read - self._num_waiting
        if room < 0 or self.has_given_up:
            return NO_DRAFT
        most = min(ask.budget, room + 1)
        next_ids, fused = self._catch_up(sequence, context)
        if ask.draws is not None:
            return self._sampled(sequence, ask, sequence.read(next_ids, fused), most)
        options = self._options
        shape = TreeShape(most, options.branches, options.width, LEAST_SIBLING, NOISE_TRUST)
        draft = sequence.draft(next_ids, fused, ask, shape)
        return draft if len(draft) else self.give_up("the draft head")

    def _sampled(
        self, sequence: HeadSequence, ask: Ask, begun: tuple[Float32, Float32, Float32], most: int
    ) -> Draft:
        """A chain whose guesses are sampled (see `Ask.draws`). begun: see `HeadSequence.read`.

        The stated probability is that of the most likely guess: the sampled value must not influence whether
        it is tested.
        """
        assert ask.draws is not None
        context, num_committed = ask.context, len(ask.context.history)
        [entry], [last], [row] = begun
        tokens, states = [int(context.history[-1])], [entry]
        distributions: list[Float64] = []
        path_probability = 1.0
        while np.isfinite(row).all():
            q = sampling.probabilities(self._spread(row), context)
            if not q.any():  # a constraint allows nothing
                break
            token = ask.draws.pick(Use.GUESS, q, num_committed, len(distributions))
            distributions.append(q)
            tokens.append(token)
            states.append(last)
            if token in context.eos_ids or len(distributions) == most:
                break
            if ask.stop is not None:
                path_probability *= ask.stop.calibrated(float(q.max()), len(distributions) - 1)
                if not ask.stop.goes_on(path_probability, len(distributions)):
                    break
            context = replace(context, history=np.append(context.history, np.int32(token)))
            parents = np.arange(-1, len(tokens) - 1, dtype=np.int32)
            found, by_row = sequence.grow(np.array(tokens, np.int32), np.stack(states), parents)
            last, row = found[-1], by_row[len(tokens) - 1]
        if not distributions:
            return NO_DRAFT if np.isfinite(row).all() else self.give_up("the draft head")
        stated = np.array([q.max() for q in distributions], np.float32)
        return Draft(np.array(tokens[1:], np.int32), None, stated, None, tuple(distributions))

    def end(self) -> None:
        self._sequence = None
        self._waiting, self._num_waiting = [], 0

    @property
    def _next(self) -> int:
        """The position of the next hidden states."""
        return self._begin + self._num_read + self._num_waiting

    def _restart(self, first: int) -> None:
        self._sequence = self._head.new_sequence()
        self._begin, self._num_read = first, 0
        self._waiting, self._num_waiting = [], 0

    def _skip(self) -> None:
        """Restart at the last of the waiting positions."""
        layers, waiting = self._head.layers, self._waiting
        kept = {layer: np.concatenate([each[layer] for each in waiting])[-_WINDOW:] for layer in layers}
        self._restart(self._next - _WINDOW)
        self._waiting, self._num_waiting = [kept], _WINDOW

    def _opened(self) -> HeadSequence:
        if self._sequence is None:
            raise StateError("propose was called outside begin ... end")
        return self._sequence

    def _catch_up(self, sequence: HeadSequence, context: ChoiceContext) -> tuple[Int32, Float32]:
        """Drop the guesses in the cache; returns the rows to read: the newly committed tokens and the hidden
        states before them.
        """
        sequence.rollback(self._num_read)
        layers = self._head.layers
        parts = [np.concatenate([each[layer] for layer in layers], axis=1) for each in self._waiting]
        fused = parts[0] if len(parts) == 1 else np.concatenate(parts)
        self._num_read += len(fused)
        self._waiting, self._num_waiting = [], 0
        return context.history[-len(fused) :], fused

    def _spread(self, logits: Float32) -> Float32:
        """The head's logits as logits of the target's vocabulary; tokens that the head lacks get -inf."""
        full = np.full(self._vocab_size, -np.inf, np.float32)
        full[self._head.draft_ids] = logits
        return full

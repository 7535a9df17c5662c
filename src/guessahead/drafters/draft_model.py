"""A second, smaller model guesses, token by token; one with another tokenizer guesses text (as_text.py).

Its guesses are chosen with the target's own parameters and the target's own noise, so under sampling both
models pick the same token about as often as the best possible rejection scheme would accept one.
(Leviathan, Kalman, Matias 2023; the shared noise: Daliri, Musco, Suresh 2024.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from guessahead import sampling
from guessahead.drafters.base import Drafter, Setup
from guessahead.engines.base import Rows
from guessahead.errors import ParameterError, StateError
from guessahead.types import Choice, Draft, Float32, Int32, Verdict

if TYPE_CHECKING:
    from guessahead.engines.base import Engine, SequenceState

_CONSIDERED: Final = 64  # tokens that sampling may plausibly choose; the noise of the rest is not computed
_FAR: Final = 16.0  # logits so far below the best weigh nothing: 150,000 of them are 2 %
_LEAST: Final = 0.02  # a sibling less likely than this costs a row for nothing
PRECISIONS: Final = {"q4": "Q4_1", "q8": "Q8_0"}


@dataclass(frozen=True, slots=True)
class DraftingOptions:
    """siblings: second-best tokens offered beside each guess, 0 to 4. They make the chain a tree, and cost
        the target rows, but the draft model nothing.

    min_chance: stop after a guess that the draft model itself holds for less likely than this, in [0, 1);
        0 leaves stopping to the controller.
    """

    siblings: int = 1
    min_chance: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.siblings <= 4:
            raise ParameterError(f"siblings must be from 0 to 4, not {self.siblings}")
        if not 0.0 <= self.min_chance < 1.0:
            raise ParameterError(f"min_chance must be at least 0 and below 1, not {self.min_chance}")


@dataclass(frozen=True, slots=True)
class DraftModelOptions(DraftingOptions):
    """precision: run the draft model at "q4" or "q8", lower than it is stored; the copy is made once and kept
        in the user cache. "" = as it is stored.
    """

    precision: str = ""

    def __post_init__(self) -> None:
        DraftingOptions.__post_init__(self)
        if self.precision and self.precision not in PRECISIONS:
            raise ParameterError(f"precision must be {' or '.join(PRECISIONS)}, not {self.precision!r}")


class DraftModel(Drafter):
    """Drafts with a second engine that has a cache of its own: a chain, and siblings beside it.

    The cache always takes `context[its length:]`, so it does not matter how much of a draft was accepted,
    and the prompt is read by the first draft, not before the first token. Drafting ends, quietly, where the
    draft model's context is full or the text holds a token that its vocabulary lacks.
    """

    name: ClassVar[str] = "draft-model"
    Options: ClassVar[type] = DraftModelOptions
    needs_draft_engine: ClassVar[bool] = True
    takes_draft_engine: ClassVar[bool] = True
    pays_per_guess: ClassVar[bool] = True
    note = "same tokenizer"

    def __init__(self, options: DraftModelOptions, setup: Setup) -> None:
        if setup.draft_engine is None:
            raise ParameterError(f"drafter {self.name!r} needs a second model")
        self._use(options, setup, _at_precision(options.precision, setup, setup.draft_engine))

    @classmethod
    def make(cls, options: Any, setup: Setup) -> Drafter:
        if setup.draft_tokenizer is None:
            return cls(options, setup)
        from guessahead.drafters.as_text import TextDraftModel

        return TextDraftModel(options, setup)

    def _use(self, options: DraftingOptions, setup: Setup, engine: Engine) -> None:
        self._options = options
        self._engine = engine
        self._target_vocab_size = setup.engine.info.vocab_size
        self._sequence: SequenceState | None = None
        self._num_committed = 0
        self._guesses: list[int] = []
        ratio = engine.info.bytes_per_pass / max(setup.engine.info.bytes_per_pass, 1)
        self.relative_cost = min(ratio, 2.0)

    def begin(self, prompt_ids: Int32, choice: Choice) -> None:
        self._sequence = self._engine.new_sequence()

    def lag(self, choice: Choice) -> int:
        return len(choice.history) - self._cache().length

    def propose(self, choice: Choice, budget: int) -> Draft:
        sequence, info = self._cache(), self._engine.info
        self._num_committed, self._guesses = len(choice.history), []
        fresh = choice.history[sequence.length :]
        room = info.context_length + 1 - len(choice.history)  # the last guess is not fed
        if fresh.max() >= info.vocab_size:
            return Draft()
        grown = _Grown(budget)
        for _ in range(min(budget, room)):
            [output] = self._engine.forward([Rows(sequence, fresh, choice=choice, want_logits=True)])
            guess = int(output.chosen[-1])
            if guess >= self._target_vocab_size:
                break  # padding of a larger vocabulary
            logits = (output.logits or {})[len(fresh) - 1]
            chances = _chances(logits, choice, guess, self._options.siblings)
            grown.add([pair for pair in chances if pair[0] < self._target_vocab_size])
            self._guesses.append(guess)
            sure = chances[0][1]
            if guess in choice.eos_ids or grown.num_main == budget or sure < self._options.min_chance:
                break
            if self.gate is not None and not self.gate.more(sure):
                break
            fresh = np.array([guess], np.int32)
            choice = replace(choice, history=np.append(choice.history, fresh))
        return grown.draft()

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


class _Grown:
    """A chain of guesses first, then their siblings as far as the budget reaches, the likeliest first."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._main: list[tuple[int, float]] = []
        self._beside: list[tuple[float, int, int, float]] = []  # -chance of the path, parent, token, chance
        self._reach = 1.0

    @property
    def num_main(self) -> int:
        return len(self._main)

    def add(self, ranked: list[tuple[int, float]]) -> None:
        """The next guess, then its siblings, each with its chance."""
        parent = len(self._main) - 1
        self._beside += [(-self._reach * chance, parent, token, chance) for token, chance in ranked[1:]]
        self._main.append(ranked[0])
        self._reach *= ranked[0][1]

    def draft(self) -> Draft:
        beside = sorted(self._beside)[: self._budget - len(self._main)]
        if not self._main:
            return Draft()
        tokens = [token for token, _ in self._main] + [token for _, _, token, _ in beside]
        parents = [*range(-1, len(self._main) - 1), *(parent for _, parent, _, _ in beside)]
        sure = [chance for _, chance in self._main] + [chance for _, _, _, chance in beside]
        return Draft(
            np.array(tokens, np.int32),
            np.array(parents, np.int32) if beside else None,
            np.array(sure, np.float32),
        )


def _at_precision(precision: str, setup: Setup, engine: Engine) -> Engine:
    if not precision:
        return engine
    if setup.draft_at_precision is None:
        raise ParameterError("precision needs a draft model that was loaded from a GGUF file")
    return setup.draft_at_precision(PRECISIONS[precision])


def _chances(logits: Float32, choice: Choice, guess: int, siblings: int) -> list[tuple[int, float]]:
    """The guess and its siblings with the draft model's probability of each.

    Greedy: softmax of the logits. Sampled: both models add the same noise, so what counts is how far the
    winner of logits / temperature + noise is ahead of the others; the softmax of those values, which is
    what a small random difference between both models would make of them.
    """
    params = choice.params
    near = np.flatnonzero(logits > logits.max() - _FAR)
    if sampling.is_greedy(params):
        values = logits[near]
    else:
        if len(near) > _CONSIDERED:
            near = near[np.argpartition(logits[near], -_CONSIDERED)[-_CONSIDERED:]]
        seed = sampling.resolved_seed(choice)
        noise = sampling.gumbel_noise(seed, choice.stream, len(choice.history), near)
        values = (logits[near] / params.temperature + noise).astype(np.float32)
    weights = np.exp(values - values.max())
    chances = weights / weights.sum()
    ranked = [(guess, float(chances[near == guess].sum()))]
    if siblings:
        likely = np.flatnonzero(chances >= _LEAST)
        pairs = zip(near[likely].tolist(), chances[likely].tolist(), strict=True)
        others = sorted((-chance, token) for token, chance in pairs if token != guess)
        ranked += [(token, -negative) for negative, token in others[:siblings]]
    return ranked

"""A second, smaller model guesses, token by token; one with another tokenizer guesses text (as_text.py).

Its guesses are chosen with the target's own parameters and the target's own noise, so under sampling both
models pick the same token about as often as the best possible rejection scheme would accept one. For that
scheme itself (`draws` is set) each guess is drawn with noise of its own, and comes with its distribution.
(Leviathan, Kalman, Matias 2023; the shared noise: Daliri, Musco, Suresh 2024.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from guessahead.core import sampling
from guessahead.core.rejection import Use
from guessahead.drafters.base import Drafter, Setup
from guessahead.drafters.growth import Grown
from guessahead.engines.base import Rows
from guessahead.errors import ParameterError, StateError
from guessahead.types import Choice, Draft, Float32, Float64, Int32, Verdict

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
    gives_dists: ClassVar[bool] = True

    def __init__(self, options: DraftModelOptions, setup: Setup) -> None:
        if setup.draft_engine is None:
            raise ParameterError(f"drafter {self.name!r} needs a second model")
        self._use(options, setup, _at_precision(options.precision, setup, setup.draft_engine))

    @classmethod
    def make(cls, options: Any, setup: Setup) -> Drafter:
        if setup.draft_tokenizer is None:
            return cls(options, setup)
        from guessahead.drafters.text_draft import TextDraftModel

        return TextDraftModel(options, setup)

    def _use(self, options: DraftingOptions, setup: Setup, engine: Engine) -> None:
        self._options = options
        self._engine = engine
        self._target_vocab_size = setup.engine.info.vocab_size
        self._sequence: SequenceState | None = None
        self._num_committed = 0
        self._guesses: list[int] = []
        self._dists: list[Float64] = []
        ratio = engine.info.bytes_per_pass / max(setup.engine.info.bytes_per_pass, 1)
        self.relative_cost = min(ratio, 2.0)

    def begin(self, prompt_ids: Int32, choice: Choice) -> None:
        self._sequence = self._engine.new_sequence()

    def lag(self, choice: Choice) -> int:
        return len(choice.history) - self._cache().length

    def propose(self, choice: Choice, budget: int) -> Draft:
        sequence, info = self._cache(), self._engine.info
        self._num_committed, self._guesses, self._dists = len(choice.history), [], []
        fresh = choice.history[sequence.length :]
        room = info.context_length + 1 - len(choice.history)  # the last guess is not fed
        if fresh.max() >= info.vocab_size:
            return Draft()
        grown = Grown(budget)
        for _ in range(min(budget, room)):
            [output] = self._engine.forward([Rows(sequence, fresh, choice=choice, want_logits=True)])
            chances = self._next(int(output.chosen[-1]), (output.logits or {})[len(fresh) - 1], choice)
            if not chances:
                break
            grown.add(chances)
            guess, sure = chances[0]
            self._guesses.append(guess)
            if guess in choice.eos_ids or grown.num_main == budget or sure < self._options.min_chance:
                break
            if self.gate is not None and not self.gate.more(sure):
                break
            fresh = np.array([guess], np.int32)
            choice = replace(choice, history=np.append(choice.history, fresh))
        draft = grown.draft()
        return replace(draft, dists=tuple(self._dists)) if self._dists else draft

    def _next(self, chosen: int, logits: Float32, choice: Choice) -> list[tuple[int, float]]:
        """The guess and its siblings, each with its chance; nothing if it is padding of a larger vocabulary.

        A drawn guess has no siblings, and its chance is that of the likeliest one: what was drawn must not
        decide anything about itself.
        """
        inside = self._target_vocab_size
        if self.draws is None:
            if chosen >= inside:
                return []
            ranked = _chances(logits, choice, chosen, self._options.siblings)
            return [pair for pair in ranked if pair[0] < inside]
        q = sampling.probabilities(logits[:inside], choice)
        guess = self.draws.pick(Use.GUESS, q, self._num_committed, len(self._guesses))
        self._dists.append(q)
        return [(guess, float(q.max()))]

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

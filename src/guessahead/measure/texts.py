"""Acceptance on a given text, teacher-forced: drafter and target always read the text itself.

At every position of the text the drafter guesses, and the target chooses a token. Greedy: a guess counts if
it equals that token. Sampled: it counts with its acceptance probability, the sum over tokens of min(p, q),
where p is the target's distribution and q the drafter's; for a drafter that returns one token and no
distribution, this is p of the token. (Leviathan, Kalman, Matias 2023, corollary 3.6.)

Deeper guesses of a draft count if the guesses before them equal the text, because otherwise the two sides
continue different texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Final

import numpy as np

from guessahead.core import sampling, tree
from guessahead.errors import PromptError
from guessahead.measure.teacher import hidden_states, teacher_forced
from guessahead.measure.text_result import TextAcceptance
from guessahead.types import (
    EMPTY_IDS,
    Ask,
    ChoiceContext,
    Draft,
    Float32,
    Float64,
    HiddenStates,
    Int32,
    SamplingParams,
    Verdict,
)

if TYPE_CHECKING:
    from guessahead.drafters.base import Drafter
    from guessahead.protocols import Engine

MIN_TOKENS: Final = 8
_NUM_BINS: Final = 24
_TIMED: Final = 16  # drafts made only to measure the time of a guess

Progress = Callable[[int, int], None]


def measure_text(
    name: str,
    token_ids: Int32,
    *,
    engine: Engine,
    drafter: Drafter,
    draft_engine: Engine | None = None,
    eos_ids: Sequence[int] = (),
    params: SamplingParams | None = None,
    gamma: int = 4,
    num_given: int | None = None,
    progress: Progress | None = None,
    clock: Callable[[], float] = perf_counter,
) -> TextAcceptance:
    """Measure one text with one drafter (a fresh one).

    token_ids: the text. num_given: number of first tokens, which are not guessed; default: a quarter, at most
    32.
    gamma: maximum number of guesses per position.
    draft_engine: of a drafter with a model; the source of q when sampling, if the tokenizers are equal.
    params: default greedy; with a seed if they sample.
    Raises PromptError for a text that is too short, or too long for the context.
    """
    if len(token_ids) < MIN_TOKENS:
        raise PromptError(f"{name} has {len(token_ids)} tokens; at least {MIN_TOKENS} are needed")
    if len(token_ids) > engine.info.context_length:
        raise PromptError(
            f"{name} has {len(token_ids)} tokens, and the context {engine.info.context_length}: shorten it"
        )
    params = SamplingParams() if params is None else params
    num_given = max(1, min(32, len(token_ids) // 4)) if num_given is None else num_given
    if not 1 <= num_given < len(token_ids):
        raise PromptError(f"{name} has {len(token_ids)} tokens, of which {num_given} are given")
    layers = drafter.needs_hidden
    hidden = hidden_states(engine, token_ids[:-1], layers) if layers else {}
    text = _Text(token_ids, num_given, params, tuple(eos_ids), hidden)
    if not text.greedy and draft_engine is not None and drafter.gives_distributions:
        text.draft(drafter, gamma, clock, text.places[:_TIMED])
        values = [
            float(np.minimum(p, q).sum()) for p, q in _distributions(text, engine, draft_engine, progress)
        ]
        return _result(name, text, [len(values)], [sum(values)], values)
    text.draft(drafter, gamma, clock, text.places)
    return _judged(name, text, engine, gamma, progress)


class _Text:
    """A text and the guesses at its positions.

    hidden: the target's hidden states of its positions, by layer, for a drafter that reads them.
    questions[place]: (position of the draft, depth in it, the guesses for this position).
    """

    def __init__(
        self,
        token_ids: Int32,
        start: int,
        params: SamplingParams,
        eos_ids: tuple[int, ...],
        hidden: Mapping[int, Float32],
    ) -> None:
        self.token_ids, self.params, self._hidden = token_ids, params, hidden
        self._start, self._eos_ids = start, eos_ids
        self.questions: dict[int, list[tuple[int, int, tuple[int, ...]]]] = {}
        self.num_guesses, self.seconds = 0, 0.0

    @property
    def places(self) -> range:
        """The positions to guess."""
        return range(self._start, len(self.token_ids))

    @property
    def greedy(self) -> bool:
        return sampling.is_greedy(self.params)

    def context(self, place: int) -> ChoiceContext:
        """The context in which the token of a position is chosen."""
        return ChoiceContext(self.params, self.token_ids[:place], self._start, self._eos_ids)

    def draft(self, drafter: Drafter, gamma: int, clock: Callable[[], float], places: range) -> None:
        """Call the drafter at each of the positions, with the text before it."""
        begun = max(self._start - 1, 1)  # the last given token stands for the prompt pass's choice
        drafter.begin(self.context(begun))
        try:
            if begun < self._start:
                drafter.observe(*self._follow(0, begun))
            for place in places:
                ask = Ask(self.context(place), min(gamma, len(self.token_ids) - place))
                began = clock()
                draft = drafter.propose(ask)
                self.seconds += clock() - began
                self.num_guesses += len(draft)
                self._ask(draft, place)
                drafter.observe(*self._follow(place - 1, place))
        finally:
            drafter.end()

    def _follow(self, first: int, place: int) -> tuple[Verdict, HiddenStates | None]:
        """The verdict with the token of a position, and the hidden states from `first` on."""
        verdict = Verdict(EMPTY_IDS, self.token_ids[place : place + 1], 0)
        if not self._hidden:
            return verdict, None
        layers = {layer: rows[first:place] for layer, rows in self._hidden.items()}
        return verdict, HiddenStates(first, layers)

    def _ask(self, draft: Draft, place: int) -> None:
        """Record the guesses whose predecessors equal the text. Siblings count as one."""
        children: dict[int, dict[int, int]] = {}
        for (parent, token), node in tree.children_of(draft).items():
            children.setdefault(parent, {})[token] = node
        node, depth = tree.ROOT, 0
        while siblings := children.get(node):
            question = (place, depth, tuple(siblings))
            self.questions.setdefault(place + depth, []).append(question)
            following = siblings.get(int(self.token_ids[place + depth]))
            if following is None:
                return
            node, depth = following, depth + 1


def _judged(name: str, text: _Text, engine: Engine, gamma: int, progress: Progress | None) -> TextAcceptance:
    """Compare the guesses with the target's choices."""
    tested, accepted = [0] * gamma, [0.0] * gamma
    firsts: list[float | None] = [None] * len(text.places)
    for place, logits in teacher_forced(engine, text.token_ids, text.places.start):
        context = text.context(place)
        p = None if text.greedy else sampling.probabilities(logits, context)
        chosen = sampling.choose(logits, context) if p is None else -1
        for drafted_at, depth, tokens in text.questions.get(place, ()):
            hits = float(chosen in tokens) if p is None else float(p[list(tokens)].sum())
            tested[depth] += 1
            accepted[depth] += hits
            if depth == 0:
                firsts[drafted_at - text.places.start] = hits
        _tell(progress, place, text)
    return _result(name, text, tested, accepted, firsts)


def _distributions(
    text: _Text, engine: Engine, draft_engine: Engine, progress: Progress | None
) -> Iterator[tuple[Float64, Float64]]:
    """p and q at every position."""
    sides = (teacher_forced(each, text.token_ids, text.places.start) for each in (engine, draft_engine))
    for (place, ours), (_, theirs) in zip(*sides, strict=True):
        context = text.context(place)
        p, q = sampling.probabilities(ours, context), sampling.probabilities(theirs, context)
        size = min(len(p), len(q))  # one vocabulary may have more padding than the other
        _tell(progress, place, text)
        yield p[:size], q[:size]


def _result(
    name: str,
    text: _Text,
    tested: Sequence[int],
    accepted: Sequence[float],
    firsts: Sequence[float | None],
) -> TextAcceptance:
    return TextAcceptance(
        name=name,
        num_tokens=len(firsts),
        num_guessed=sum(first is not None for first in firsts),
        tested_at=tuple(tested),
        accepted_at=tuple(accepted),
        along=_bins(firsts),
        guess_seconds=text.seconds / text.num_guesses if text.num_guesses else 0.0,
    )


def _bins(firsts: Sequence[float | None]) -> tuple[float | None, ...]:
    """The means of parts of equal length."""
    parts = np.array_split(np.arange(len(firsts)), min(_NUM_BINS, len(firsts)))
    means: list[float | None] = []
    for part in parts:
        known = [value for value in (firsts[index] for index in part.tolist()) if value is not None]
        means.append(sum(known) / len(known) if known else None)
    return tuple(means)


def _tell(progress: Progress | None, place: int, text: _Text) -> None:
    if progress is not None:
        progress(place + 1 - text.places.start, len(text.places))

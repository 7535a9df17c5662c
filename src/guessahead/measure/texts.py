"""How well can a given text be guessed? Measured, teacher-forced: both sides always read the text itself.

At every place of the text the drafter guesses, and the target says what it would write there. Greedy: a guess
counts if it is that token. Sampled: it counts with the probability that it survives, the sum over tokens of
min(p, q), p being the target's distribution and q the drafter's; for a drafter that names one token and no
distribution, that is p of the token. (Leviathan, Kalman, Matias 2023, corollary 3.6.)

Deeper guesses of a draft count where the guesses before them stand in the text too, since only then do both
sides go on from the same words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Final

import numpy as np

from guessahead.core import sampling, tree
from guessahead.engines.base import Rows
from guessahead.errors import PromptError
from guessahead.measure.text_result import TextAcceptance
from guessahead.types import Choice, Draft, Float32, Float64, Int32, SamplingParams, Verdict

if TYPE_CHECKING:
    from guessahead.drafters.base import Drafter
    from guessahead.engines.base import Engine

MIN_TOKENS: Final = 8
_AHEAD: Final = 8  # tokens of the text that one pass checks: as many choices come out as the text fits
_NUM_BINS: Final = 24
_TIMED: Final = 16  # drafts that are made only to see what a guess takes
_NO_NODES: Final = np.empty(0, np.int32)

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

    token_ids: the text. num_given: its first tokens, which are not guessed; default: a quarter, at most 32.
    gamma: most guesses looked at per place.
    draft_engine: of a drafter that is a model; q is taken from it when sampling, if of the same tokens.
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
    text = _Text(token_ids, num_given, params, tuple(eos_ids), _hidden(engine, token_ids, drafter))
    if not sampling.is_greedy(params) and draft_engine is not None and drafter.gives_dists:
        text.draft(drafter, gamma, clock, text.places[:_TIMED])
        values = [
            float(np.minimum(p, q).sum()) for p, q in _distributions(text, engine, draft_engine, progress)
        ]
        return _result(name, text, [len(values)], [sum(values)], values)
    text.draft(drafter, gamma, clock, text.places)
    return _judged(name, text, engine, gamma, progress)


class _Text:
    """A text, and what was guessed at its places.

    hidden: the target's hidden states of its positions, by layer, for a drafter that reads them.
    questions[place]: (place of the draft, depth in it, the guesses for this place).
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
        """Where something is to be guessed."""
        return range(self._start, len(self.token_ids))

    @property
    def greedy(self) -> bool:
        return sampling.is_greedy(self.params)

    def choice(self, place: int, params: SamplingParams | None = None) -> Choice:
        """How to choose the token of a place."""
        return Choice(params or self.params, self.token_ids[:place], self._start, self._eos_ids)

    def draft(self, drafter: Drafter, gamma: int, clock: Callable[[], float], places: range) -> None:
        """Let the drafter guess at every one of the places; it sees the text before it."""
        drafter.begin(self.token_ids[: self._start], self.choice(self._start))
        num_read = 0
        try:
            for place in places:
                if self._hidden:  # of all that stands before the last token, which no pass has read yet
                    fresh = slice(num_read, place - 1)
                    drafter.read(num_read, {layer: rows[fresh] for layer, rows in self._hidden.items()})
                    num_read = place - 1
                began = clock()
                draft = drafter.propose(self.choice(place), min(gamma, len(self.token_ids) - place))
                self.seconds += clock() - began
                self.num_guesses += len(draft)
                self._ask(draft, place)
                drafter.observe(Verdict(_NO_NODES, self.token_ids[place : place + 1], 0))
        finally:
            drafter.end()

    def _ask(self, draft: Draft, place: int) -> None:
        """Note the guesses as far as those before them stand in the text. Siblings count together."""
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


def _hidden(engine: Engine, token_ids: Int32, drafter: Drafter) -> Mapping[int, Float32]:
    """What `drafter` wants to know of the target's passes over the text."""
    if not drafter.needs_hidden:
        return {}
    sequence = engine.new_sequence()
    try:
        [output] = engine.forward([Rows(sequence, token_ids[:-1], want_hidden=drafter.needs_hidden)])
    finally:
        sequence.close()
    return output.hidden or {}


def _judged(name: str, text: _Text, engine: Engine, gamma: int, progress: Progress | None) -> TextAcceptance:
    """The target's opinion of the guesses."""
    tested, accepted = [0] * gamma, [0.0] * gamma
    firsts: list[float | None] = [None] * len(text.places)
    for place, chosen, logits in teacher_forced(engine, text, want_logits=not text.greedy):
        p = None if logits is None else sampling.probabilities(logits, text.choice(place))
        for drafted_at, depth, tokens in text.questions.get(place, ()):
            worth = float(chosen in tokens) if p is None else float(p[list(tokens)].sum())
            tested[depth] += 1
            accepted[depth] += worth
            if depth == 0:
                firsts[drafted_at - text.places.start] = worth
        _tell(progress, place, text)
    return _result(name, text, tested, accepted, firsts)


def _distributions(
    text: _Text, engine: Engine, draft_engine: Engine, progress: Progress | None
) -> Iterator[tuple[Float64, Float64]]:
    """p and q at every place."""
    sides = (teacher_forced(each, text, want_logits=True) for each in (engine, draft_engine))
    for (place, _, ours), (_, _, theirs) in zip(*sides, strict=True):
        assert ours is not None
        assert theirs is not None
        choice = text.choice(place)
        p, q = sampling.probabilities(ours, choice), sampling.probabilities(theirs, choice)
        size = min(len(p), len(q))  # one vocabulary may be padded further than the other
        _tell(progress, place, text)
        yield p[:size], q[:size]


def teacher_forced(
    engine: Engine, text: _Text, *, want_logits: bool
) -> Iterator[tuple[int, int, Float32 | None]]:
    """(place, the choice there, logits if wanted) for every place of the text.

    A pass checks the next tokens of the text as if they were a draft: as long as the choice is what stands
    there, further choices come out of the same pass. Where it differs, the text goes on and not the choice.
    """
    token_ids, place = text.token_ids, text.places.start
    # Where only the logits count, choices are greedy: they agree with a text more often.
    params = SamplingParams() if want_logits else text.params
    sequence = engine.new_sequence()
    try:
        if place > 1:
            engine.forward([Rows(sequence, token_ids[: place - 1])])
        while place < len(token_ids):
            fresh = token_ids[sequence.length : place]
            ahead = token_ids[place : min(place + _AHEAD, len(token_ids) - 1)]
            last = row = len(fresh) - 1
            rows = Rows(
                sequence,
                np.concatenate([fresh, ahead]),
                choice=text.choice(place, params),
                choose_from=last,
                want_logits=want_logits,
            )
            [output] = engine.forward([rows])
            while True:
                chosen = int(output.chosen[row])
                yield place, chosen, None if output.logits is None else output.logits[row]
                place += 1
                if row - last == len(ahead) or chosen != token_ids[place - 1]:
                    break
                row += 1
            sequence.keep(np.arange(last + 1, row + 1, dtype=np.int32))
    finally:
        sequence.close()


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
    """Means of equal parts."""
    parts = np.array_split(np.arange(len(firsts)), min(_NUM_BINS, len(firsts)))
    means: list[float | None] = []
    for part in parts:
        known = [value for value in (firsts[index] for index in part.tolist()) if value is not None]
        means.append(sum(known) / len(known) if known else None)
    return tuple(means)


def _tell(progress: Progress | None, place: int, text: _Text) -> None:
    if progress is not None:
        progress(place + 1 - text.places.start, len(text.places))

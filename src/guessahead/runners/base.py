"""One iteration of the loop of every runner: guess, run one pass, verify and commit, learn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from guessahead.core.stats import StepSeconds
from guessahead.errors import NotFiniteError
from guessahead.runners.second_look import where_not_finite

if TYPE_CHECKING:
    from guessahead.core.step import Step
    from guessahead.protocols import Engine, PassOutput
    from guessahead.types import Chunk


def turn(engine: Engine, steps: Sequence[Step], clock: Callable[[], float]) -> list[Chunk]:
    """Run one step of each sequence in one pass; returns the chunk of each.

    Raises NotFiniteError, which says where, if a model computes numbers that are not finite.
    """
    started = clock()
    # 1. Guess.
    for step in steps:
        while (asked := step.ask()) is not None:
            drafter, ask = asked
            began = clock()
            draft = drafter.propose(ask)
            step.answer(draft, clock() - began)
    proposed = clock()
    # 2. One pass over the tokens that the caches lack, and the guesses.
    outputs = engine.forward([step.rows() for step in steps])
    forwarded = clock()
    # 3. Commit the accepted guesses, and the target's own next token.
    chunks = [_taken(engine, step, output) for step, output in zip(steps, outputs, strict=True)]
    committed = clock()
    # 4. Learn.
    seconds = StepSeconds(proposed - started, forwarded - proposed, committed - forwarded)
    for step in steps:
        step.learn(seconds)
    learned = clock() - committed
    for step in steps:
        step.carry(learned)
    return chunks


def _taken(engine: Engine, step: Step, output: PassOutput) -> Chunk:
    try:
        return step.take(output)
    except NotFiniteError:
        raise NotFiniteError(where_not_finite(engine, step.history)) from None

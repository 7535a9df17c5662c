"""Teacher forcing: a given text run as steps in which its own tokens are the draft and the choice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from time import perf_counter
from typing import TYPE_CHECKING, Final

import numpy as np

from guessahead.controller.base import FixedGamma
from guessahead.core.state import GenerationState, NoText
from guessahead.core.step import CHOOSE, HiddenRecorder, Step
from guessahead.drafters import registry
from guessahead.drafters.base import DrafterResources
from guessahead.errors import NotFiniteError, StateError
from guessahead.runners.base import turn
from guessahead.types import NO_DRAFT, ChoiceContext, Draft, Float32, Int32, Request, SamplingParams, Verdict

if TYPE_CHECKING:
    from guessahead.core.step import Judge, StepDrafter
    from guessahead.protocols import Engine, PassOutput, Policy

_AHEAD: Final = 8  # tokens of the text that one pass checks


class _TextPolicy:
    """The policy that drafts the text itself, so that one pass computes several positions."""

    def __init__(self, token_ids: Int32) -> None:
        self._token_ids, self._draft = token_ids, NO_DRAFT

    def begin(self, context: ChoiceContext, budget: int) -> None:
        place = len(context.history)
        self._draft = Draft(self._token_ids[place : place + min(budget, _AHEAD)])

    def ask(self) -> None:
        return None

    def answer(self, draft: Draft, seconds: float) -> None:
        raise StateError("a text policy makes no requests")

    def draft(self) -> Draft:
        return self._draft

    def observe(self, verdict: Verdict, num_rows: int, context_length: int, *seconds: float) -> None:
        """Learn nothing."""

    def why(self) -> None:
        return None


class _TextJudge:
    """The judge that accepts the text itself, and records the logits of its positions."""

    needs_all_logits = True

    def __init__(self, token_ids: Int32) -> None:
        self._token_ids = token_ids
        self.logits: list[tuple[int, Float32]] = []

    def chosen(self, draft: Draft, context: ChoiceContext, output: PassOutput, last: int) -> Int32:
        place = len(context.history)
        logits = output.logits or {}
        self.logits = [(place + depth, logits[last + depth]) for depth in range(len(draft) + 1)]
        if not all(np.isfinite(row).all() for _, row in self.logits):
            raise NotFiniteError("the model computes numbers that are not finite")
        return self._token_ids[place : place + len(draft) + 1]


def teacher_forced(engine: Engine, token_ids: Int32, start: int) -> Iterator[tuple[int, Float32]]:
    """The (position, logits float32[vocab]) of every position from `start` on, several in each pass."""
    judge = _TextJudge(token_ids)
    request = Request(token_ids[:start], SamplingParams(), max_tokens=len(token_ids) - start)
    for _ in _run(engine, request, HiddenRecorder(()), _TextPolicy(token_ids), judge):
        yield from judge.logits


def hidden_states(engine: Engine, token_ids: Int32, layers: tuple[int, ...]) -> Mapping[int, Float32]:
    """The target's hidden states of a text by layer, float32[n, width], in one call."""
    recorder = HiddenRecorder(layers)
    policy = FixedGamma(registry.make("none", {}, DrafterResources(engine)), 0)
    for _ in _run(engine, Request(token_ids, SamplingParams(), max_tokens=1), recorder, policy, CHOOSE):
        pass
    [states] = recorder.states
    return states.layers


def _run(
    engine: Engine, request: Request, drafter: StepDrafter, policy: Policy, judge: Judge
) -> Iterator[None]:
    """Run the steps of a request one by one; no token ends it."""
    sequence = engine.new_sequence()
    try:
        state = GenerationState(request, engine.info, (), NoText(), "none")
        step = Step(state, sequence, drafter, policy, judge)
        while state.finish_reason is None:
            turn(engine, [step], perf_counter)
            yield
    finally:
        sequence.close()

"""The search for the best setting of a model on this machine: threads, drafter and maximum draft.

The model answers some prompts by plain decoding. Each drafter is then measured, teacher-forced, on these
answers (texts.py), which are the texts that it would have to guess. From the measured costs, formulas.py
computes the speed-up of each drafter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from guessahead.errors import ParameterError
from guessahead.measure.formulas import Costs, VerifyCurve
from guessahead.measure.text_result import Expectation, TextAcceptance, expect, pooled
from guessahead.measure.texts import measure_text

if TYPE_CHECKING:
    from guessahead.controller.pass_curve import PassCurve
    from guessahead.drafters.base import Drafter
    from guessahead.measure.texts import Progress
    from guessahead.model import LanguageModel
    from guessahead.protocols import Engine
    from guessahead.types import Int32

# Minimum expected speed-up of a drafter; less is lost in noise, and plain decoding is simpler.
WORTHWHILE: Final = 1.03
# The maximum draft must be within this share of the speed of larger ones: measured costs are noisy.
NEARLY: Final = 0.98


@dataclass(frozen=True, slots=True)
class Answer:
    """A prompt and the model's plain answer, as tokens; the first num_prompt_tokens are the prompt."""

    name: str
    token_ids: Int32
    num_prompt_tokens: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """The measurement of a drafter. problem: why it was not possible; then the rest is None."""

    drafter: str
    found: TextAcceptance | None = None
    costs: Costs | None = None
    expected: Expectation | None = None
    problem: str | None = None


def plain_answers(
    lm: LanguageModel, prompts: Sequence[tuple[str, str]], max_tokens: int, progress: Progress
) -> list[Answer]:
    """The model's answers to prompts, given as (name, prompt)."""
    answers = []
    for index, (name, prompt) in enumerate(prompts, start=1):
        generation = lm.generate(prompt, max_tokens=max_tokens, drafter="none", trace=True)
        assert generation.trace is not None
        prompt_ids = generation.trace["prompt_token_ids"]
        token_ids = np.array([*prompt_ids, *generation.token_ids], np.int32)
        if len(generation.token_ids) > 1:  # the first token is never guessed
            answers.append(Answer(name, token_ids, len(prompt_ids)))
        progress(index, len(prompts))
    return answers


def measure_drafter(
    name: str,
    make: Callable[[], Drafter],
    engine: Engine,
    answers: Sequence[Answer],
    passes: PassCurve,
    *,
    gamma: int,
    eos_ids: Sequence[int],
    progress: Progress,
) -> Candidate:
    """Measure one drafter on all answers. If it cannot be created, the result has the reason."""
    found = []
    for index, answer in enumerate(answers, start=1):
        try:
            drafter = make()
        except ParameterError as error:
            return Candidate(name, problem=str(error))
        measured = measure_text(
            answer.name,
            answer.token_ids,
            engine=engine,
            drafter=drafter,
            eos_ids=eos_ids,
            gamma=gamma,
            num_given=answer.num_prompt_tokens + 1,
        )
        found.append(measured)
        progress(index, len(answers))
    together = pooled(name, found)
    costs = Costs(together.guess_seconds / passes.seconds[1], VerifyCurve(passes.v))
    return Candidate(name, together, costs, expect(together, costs, gamma))


def largest_draft(v: VerifyCurve) -> int:
    """The maximum number of guesses per step that can pay: even if all are right, more are hardly faster.

    v is used only as far as it was measured.
    """
    speeds = [(gamma + 1) / v(gamma + 1) for gamma in range(1, max(v.points))] or [1.0]
    return next(gamma for gamma, speed in enumerate(speeds, 1) if speed >= NEARLY * max(speeds))


def best(candidates: Sequence[Candidate]) -> Candidate | None:
    """The candidate with the highest expected speed-up; None if none reaches WORTHWHILE."""
    known = [each for each in candidates if each.expected is not None and each.expected.gamma > 0]
    top = max(known, key=lambda each: each.expected.speedup if each.expected else 0.0, default=None)
    if top is None or top.expected is None or top.expected.speedup < WORTHWHILE:
        return None
    return top

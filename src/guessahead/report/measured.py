"""Acceptance and costs measured in a trace: alpha, c and v(m)."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from guessahead.errors import ParameterError
from guessahead.measure.formulas import Costs, VerifyCurve

if TYPE_CHECKING:
    from guessahead.report.trace import Trace


@dataclass(frozen=True, slots=True)
class Measured:
    """The measurements in a trace: alpha, the costs, and tau and speed-up, if known.

    share: of the steps with guesses. mean_draft: mean number of guesses in them.
    """

    alpha: float
    share: float
    mean_draft: float
    costs: Costs
    tau: float | None
    speedup: float | None


def from_trace(trace: Trace) -> Measured:
    """alpha, c and v(m) of a trace.

    The time of a one-row pass is plain decoding's if the trace has it (--compare), else that of the steps
    without guesses. Raises ParameterError if there is neither, or there are no guesses.
    """
    drafting = [step for step in trace.later_steps if step.guesses]
    alpha = trace.stats.get("alpha")
    if not drafting or not isinstance(alpha, int | float):
        raise ParameterError(f"{trace.name} has no step with guesses, so it has no alpha")
    one_row = _one_row_seconds(trace)
    by_rows: dict[int, list[float]] = {}
    for step in trace.later_steps:
        if step.num_rows > 1:
            by_rows.setdefault(step.num_rows, []).append(step.seconds.forward / one_row)
    num_guesses = sum(len(step.guesses) for step in drafting)
    propose_seconds = sum(step.seconds.propose for step in trace.later_steps)
    ratio = trace.comparison.get("ratio")
    tau = trace.stats.get("tau")
    return Measured(
        alpha=float(alpha),
        share=len(drafting) / len(trace.later_steps),
        mean_draft=num_guesses / len(drafting),
        costs=Costs(
            c=propose_seconds / num_guesses / one_row,
            v=VerifyCurve({rows: median(values) for rows, values in by_rows.items()}),
        ),
        tau=tau if isinstance(tau, float) else None,
        speedup=ratio if isinstance(ratio, float) else None,
    )


def _one_row_seconds(trace: Trace) -> float:
    seconds, passes = trace.plain.get("forward_seconds"), trace.plain.get("num_passes")
    if isinstance(seconds, float) and isinstance(passes, int) and seconds > 0 and passes > 0:
        return seconds / passes
    plain = [step.seconds.forward for step in trace.later_steps if step.num_rows == 1]
    if not plain or median(plain) <= 0:
        raise ParameterError(
            f"{trace.name} does not have the time of a plain pass: make the trace with --compare"
        )
    return median(plain)

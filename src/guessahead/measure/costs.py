"""What passes cost on this machine, measured on purpose: v(m) and the seconds of a one-row pass.

(While text is generated, `controller.pass_costs` learns the same from the passes that are made anyway.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Final

import numpy as np

from guessahead.measure.formulas import VerifyCurve
from guessahead.protocols import Rows
from guessahead.types import ChoiceContext, Int32, SamplingParams

if TYPE_CHECKING:
    from guessahead.protocols import Engine, SequenceState

ROWS: Final = (1, 2, 3, 4, 5, 6, 8, 10, 13, 17, 25)
NUM_ROUNDS: Final = 9
_CONTEXT: Final = 64


@dataclass(frozen=True, slots=True)
class PassTimes:
    """seconds: of a one-row pass. v: of passes of m rows, over that."""

    seconds: float
    v: VerifyCurve


def measure_passes(
    engine: Engine,
    *,
    rows: Sequence[int] = ROWS,
    num_rounds: int = NUM_ROUNDS,
    clock: Callable[[], float] = perf_counter,
    progress: Callable[[int, int], None] | None = None,
) -> PassTimes:
    """Time passes of several sizes behind a short text, in turns, so that a busy moment meets all sizes.

    rows: sizes; those that the engine or its context cannot take are left out. progress: (rounds done, all).
    """
    context = min(_CONTEXT, engine.info.context_length // 2)
    most = min(engine.info.max_rows, engine.info.context_length - context)
    sizes = [1, *(size for size in rows if 1 < size <= most)]
    token_ids = np.arange(context + max(sizes), dtype=np.int32) % engine.info.vocab_size
    sequence = engine.new_sequence()
    try:
        engine.forward([Rows(sequence, token_ids[:context])])
        seconds: dict[int, list[float]] = {size: [] for size in sizes}
        for index in range(num_rounds + 1):
            for size in sizes:
                taken = _time_pass(engine, sequence, token_ids[: context + size], context, clock)
                if index:  # the first round warms up
                    seconds[size].append(taken)
            if progress is not None:
                progress(index, num_rounds)
    finally:
        sequence.close()
    one = seconds[1]
    curve = {size: median(a / b for a, b in zip(taken, one, strict=True)) for size, taken in seconds.items()}
    return PassTimes(median(one), VerifyCurve(curve))


def _time_pass(
    engine: Engine, sequence: SequenceState, token_ids: Int32, context: int, clock: Callable[[], float]
) -> float:
    """One committed row and guesses behind it, as in a step; the cache is as before afterwards."""
    context_of = ChoiceContext(SamplingParams(), token_ids[: context + 1], context)
    started = clock()
    engine.forward([Rows(sequence, token_ids[context:], context=context_of, choose_from=0)])
    taken = clock() - started
    sequence.rollback(context)
    return taken

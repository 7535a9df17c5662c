"""Measuring v(m): the time of a pass of m rows over that of one row.

This is the only place where passes are made in order to time them. It decides how fast a text comes out,
never what it says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Final

import numpy as np

from guessahead.protocols import Rows
from guessahead.types import ChoiceContext, SamplingParams

if TYPE_CHECKING:
    from guessahead.protocols import Engine

SIZES: Final = (1, 2, 3, 5, 8, 13, 25)
# At load, measuring ends after this time, or after one pass of each size where that takes longer.
LOAD_SECONDS: Final = 0.1
LOAD_ROUNDS: Final = 5
# For those who ask for a measurement and wait for it.
FINE_SIZES: Final = (1, 2, 3, 4, 5, 6, 8, 10, 13, 17, 25)
FINE_ROUNDS: Final = 9
# A measurement is noisy where passes of one row differ by more than this, or where it shows that more rows
# take less time than this share of what fewer take.
MOST_SPREAD: Final = 1.5
LEAST_RISE: Final = 0.9
_CONTEXT: Final = 64


@dataclass(frozen=True, slots=True)
class PassCurve:
    """Times of passes. seconds: rows -> the shortest time of a pass of so many; one row is among them.

    noisy: another measurement would show something else.
    """

    seconds: Mapping[int, float]
    noisy: bool = False

    @property
    def v(self) -> dict[int, float]:
        """Rows -> time over that of one row; it never falls."""
        shortest, v = self.seconds[1], 1.0
        return {rows: (v := max(v, self.seconds[rows] / shortest)) for rows in sorted(self.seconds)}


def measure_passes(
    engine: Engine,
    *,
    sizes: Sequence[int] = SIZES,
    num_rounds: int = LOAD_ROUNDS,
    max_seconds: float = float("inf"),
    clock: Callable[[], float] = perf_counter,
    progress: Callable[[int, int], None] | None = None,
) -> PassCurve:
    """Time passes of several sizes behind a short text, each round in another order.

    A disturbance only ever lengthens a pass, so the shortest of each size counts. sizes: those that the
    engine or its context cannot take are left out. max_seconds: no further pass after this time, once each
    size has had one. progress: called with rounds done and num_rounds.
    """
    context = min(_CONTEXT, engine.info.context_length // 2)
    most = min(engine.info.max_rows, engine.info.context_length - context)
    sizes = [1, *(size for size in sizes if 1 < size <= most)]
    token_ids = np.arange(context + max(sizes), dtype=np.int32) % engine.info.vocab_size
    choose = ChoiceContext(SamplingParams(), token_ids[: context + 1], context)
    sequence = engine.new_sequence()

    def seconds_of(size: int) -> float:
        """A committed row and guesses behind it, as in a step; the cache is as before afterwards."""
        rows = Rows(sequence, token_ids[context : context + size], context=choose, choose_from=0)
        started = clock()
        engine.forward([rows])
        taken = clock() - started
        sequence.rollback(context)
        return taken

    taken: dict[int, list[float]] = {size: [] for size in sizes}
    try:
        engine.forward([Rows(sequence, token_ids[:context])])
        started = clock()
        seconds_of(1)  # warms up
        for index in range(num_rounds * len(sizes)):
            number, place = divmod(index, len(sizes))
            if number and clock() - started > max_seconds:
                break
            size = sizes[(place + number) % len(sizes)]
            taken[size].append(seconds_of(size))
            if progress is not None and place + 1 == len(sizes):
                progress(number + 1, num_rounds)
    finally:
        sequence.close()
    shortest = {size: min(each) for size, each in taken.items()}
    falls = any(shortest[b] < LEAST_RISE * shortest[a] for a, b in pairwise(sizes))
    return PassCurve(shortest, falls or median(taken[1]) > MOST_SPREAD * shortest[1])

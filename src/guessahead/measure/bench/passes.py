"""`guessahead bench passes`: the time of a pass of m rows, and its minimum by the roofline."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

import guessahead._native as _native
from guessahead.engines.native import NativeEngine
from guessahead.errors import NotFiniteError, ParameterError
from guessahead.measure.bench.peaks import PassFloor, PeakMeter, Peaks
from guessahead.measure.bench.workload import default_tasks
from guessahead.protocols import Rows
from guessahead.runners.second_look import where_not_finite
from guessahead.runners.solo import solo
from guessahead.types import NOT_FINITE, ChoiceContext, Int32, SamplingParams

if TYPE_CHECKING:
    from guessahead.model import LanguageModel

DEFAULT_ROWS: Final = (1, 2, 3, 4, 5, 6, 8, 12, 16)
_PROFILED_ROWS: Final = (1, 8)
_PROFILED_PASSES: Final = 8
BLOCK_PASSES: Final = 5
_FURTHER: Final = 5
"""A further row is the mean of those up to this one."""


class Bench:
    """Passes over one cached context: all rows are accepted ones, so that `choose` runs for every row."""

    def __init__(self, engine: NativeEngine, prompt: Int32, max_rows: int) -> None:
        self._engine = engine
        self.prompt = prompt
        self.all_identical = True
        self.seconds_to_fill = self._fill()
        self._continue(max_rows)

    @property
    def cache_bytes(self) -> float:
        """Bytes of the cache that a pass has to read (the engine allocates whole pages)."""
        num_positions = -(-len(self.prompt) // _native.PAGE) * _native.PAGE
        return self.sequence.num_bytes * len(self.prompt) / num_positions

    def run(self, num_rows: int) -> float:
        """Seconds of one pass; the cache is unchanged afterwards."""
        rows = Rows(self.sequence, self._text[:num_rows], context=self._choice, choose_from=0)
        started = perf_counter()
        [output] = self._engine.forward([rows])
        seconds = perf_counter() - started
        self.sequence.rollback(len(self.prompt))
        self.all_identical = self.all_identical and np.array_equal(
            output.chosen, self._text[1 : num_rows + 1]
        )
        return seconds

    def profile(self, num_rows: int) -> dict[str, float]:
        """Milliseconds per pass and kind of operation, and "other": the time outside of all operations."""
        plan = self._engine.plan
        plan.set_profiling(True)
        total = sum(self.run(num_rows) for _ in range(_PROFILED_PASSES))
        found = dict(plan.profile)
        plan.set_profiling(False)
        found["other"] = total - sum(found.values())
        return {label: seconds / _PROFILED_PASSES * 1e3 for label, seconds in found.items()}

    def _fill(self) -> float:
        """Read the prompt into a new sequence and keep the next token. Returns the seconds."""
        sequence = self._engine.new_sequence()
        choice = ChoiceContext(SamplingParams(seed=0), self.prompt, len(self.prompt))
        started = perf_counter()
        [output] = self._engine.forward([Rows(sequence, self.prompt, context=choice)])
        seconds = perf_counter() - started
        self.sequence = sequence
        self._text = output.chosen[-1:].astype(np.int32)
        if self._text[0] == NOT_FINITE:
            raise NotFiniteError(where_not_finite(self._engine, self.prompt))
        return seconds

    def _continue(self, max_rows: int) -> None:
        """Plain decoding, one row a pass: the tokens of the rows, and the expected choice after each."""
        history = np.append(self.prompt, self._text)
        self._choice = ChoiceContext(SamplingParams(seed=0), history, len(self.prompt))
        for _ in range(max_rows):
            choice = ChoiceContext(SamplingParams(seed=0), history, len(self.prompt))
            [output] = self._engine.forward([Rows(self.sequence, history[-1:], context=choice)])
            history = np.append(history, output.chosen).astype(np.int32)
        self._text = history[len(self.prompt) :]
        self.sequence.rollback(len(self.prompt))


@dataclass(slots=True)
class PassTimes:
    """Seconds of passes over one context, by number of rows.

    blocks: of several passes of one size in a row, as in a text whose steps are alike. alternating: of passes
    each of which follows one of another size. again: a second series of blocks of one row, the null. Each
    round begins with another size, as a pass may leave the caches in another state than the next one needs.
    """

    bench: Bench
    rows: Sequence[int]
    blocks: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    alternating: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    again: list[float] = field(default_factory=list)

    def sample(self) -> None:
        """One round: an alternating pass and a block of each size, and the null."""
        for num_rows in self.alternate():
            self.blocks[num_rows].append(self._block(num_rows))
        self.again.append(self._block(1))

    def alternate(self) -> list[int]:
        """One round of alternating passes alone. Returns the sizes in the order of the round."""
        start = len(self.alternating[1]) % len(self.rows)
        order = [*self.rows[start:], *self.rows[:start]]
        for num_rows in order:
            self.alternating[num_rows].append(self.bench.run(num_rows))
        return order

    def _block(self, num_rows: int) -> float:
        """Seconds of a pass: the median of a block without its first one."""
        return median([self.bench.run(num_rows) for _ in range(BLOCK_PASSES)][1:])

    def seconds(self, num_rows: int) -> float:
        """Of a pass in blocks."""
        return median(self.blocks[num_rows])

    def v(self, num_rows: int) -> float:
        """Time of a pass over that of one row, in blocks."""
        return self.seconds(num_rows) / self.seconds(1)

    def alternating_seconds(self, num_rows: int) -> float:
        return median(self.alternating[num_rows])

    def alternating_v(self, num_rows: int) -> float:
        return self.alternating_seconds(num_rows) / self.alternating_seconds(1)

    @property
    def null(self) -> float:
        """One row over one row: how far apart two measurements of the same thing are."""
        return median(self.again) / self.seconds(1)


def time_passes(
    lm: LanguageModel,
    *,
    contexts: Sequence[int],
    rows: Sequence[int],
    num_rounds: int,
    between: Callable[[], None],
    sample: Callable[[PassTimes], object] = PassTimes.sample,
) -> dict[int, PassTimes]:
    """The times by context, one context after the other; one row is always among the rows.

    between: called before the first context and after each. sample: one round, `PassTimes.sample` or
    `PassTimes.alternate`. Raises ParameterError if rows or contexts do not fit the model.
    """
    rows = sorted({1, *rows})
    info = lm.info
    if rows[0] < 1 or rows[-1] > info.max_rows:
        raise ParameterError(f"rows must be from 1 to {info.max_rows}")
    if min(contexts) < 1 or max(contexts) + rows[-1] + 1 > info.context_length:
        most = info.context_length - rows[-1] - 1
        raise ParameterError(f"contexts must be from 1 to {most} tokens for this model and {rows[-1]} rows")
    engine = native_engine(lm)
    text = text_of(lm, max(contexts))
    found = {}
    between()
    for context in dict.fromkeys(contexts):
        bench = Bench(engine, text[:context], rows[-1])
        for num_rows in rows:
            bench.run(num_rows)  # warm-up
        found[context] = PassTimes(bench, rows)
        for _ in range(num_rounds):
            sample(found[context])
        between()
    return found


def identical(found: Mapping[int, PassTimes]) -> bool:
    """Whether every row of every pass chose what plain decoding chose."""
    return all(times.bench.all_identical for times in found.values())


def native_engine(lm: LanguageModel) -> NativeEngine:
    """The model's engine. Raises ParameterError if it is not the native one, which has these costs."""
    engine = solo(lm.runner).engine
    if not isinstance(engine, NativeEngine):
        raise ParameterError("passes are timed for the native engine only")
    return engine


def text_of(lm: LanguageModel, num_tokens: int) -> Int32:
    """This number of tokens of real text: the prompts of the workload, repeated."""
    text = "\n\n".join(task.prompt for task in default_tasks())
    return np.resize(np.array(lm.tokenizer.encode(text, special=False), np.int32), num_tokens)


def time_prompt(lm: LanguageModel, num_tokens: int, num_rounds: int) -> dict[str, Any]:
    """The time of reading a prompt into an empty cache and choosing the next token."""
    engine = native_engine(lm)
    text = text_of(lm, num_tokens)
    seconds = median(Bench(engine, text, 0).seconds_to_fill for _ in range(num_rounds))
    return {"num_tokens": num_tokens, "ms": seconds * 1e3, "tokens_per_second": num_tokens / seconds}


def pass_rows(found: Mapping[int, PassTimes], costs: PassFloor, peaks: Peaks) -> list[dict[str, Any]]:
    """The rows of the JSON document (benchmarks/README.md describes them)."""
    entries = []
    for context, times in found.items():
        for num_rows in times.rows:
            least = peaks.least_seconds(costs.work(num_rows, context, times.bench.cache_bytes))
            seconds = times.seconds(num_rows)
            entries.append(
                {
                    "rows": num_rows,
                    "context": context,
                    "ms": seconds * 1e3,
                    "v": times.v(num_rows),
                    "alternating_ms": times.alternating_seconds(num_rows) * 1e3,
                    "alternating_v": times.alternating_v(num_rows),
                    "roofline_ms": least * 1e3,
                    "ratio_to_roofline": seconds / least,
                }
            )
    return entries


def context_entry(context: int, times: PassTimes, costs: PassFloor, peaks: Peaks) -> dict[str, Any]:
    """The null, and the time of one more row, also over that of its int8 multiply-adds at their peak."""
    entry: dict[str, Any] = {"context": context, "null": times.null}
    if more := times.rows[1:]:
        last = max((m for m in more if m <= _FURTHER), default=more[0])
        seconds = (times.seconds(last) - times.seconds(1)) / (last - 1)
        over_macs = seconds / (costs.int8_macs / peaks.int8) if costs.int8_macs else None
        entry |= {"further_row_ms": seconds * 1e3, "up_to_rows": last, "further_row_over_macs": over_macs}
    return entry


def bench_passes(
    lm: LanguageModel,
    path: Path,
    meter: PeakMeter,
    *,
    contexts: Sequence[int],
    rows: Sequence[int],
    prompt_tokens: int,
    num_rounds: int,
    int8: bool,
) -> dict[str, Any]:
    """The document, without provenance."""
    times = time_passes(lm, contexts=contexts, rows=rows, num_rounds=num_rounds, between=meter.measure)
    engine, all_rows = native_engine(lm), next(iter(times.values())).rows
    floor, peaks = PassFloor.of(path, engine, int8=int8), meter.peaks
    profiled = [(context, m) for context in times for m in _PROFILED_ROWS if m <= all_rows[-1]]
    return {
        "benchmark": "passes",
        "model": lm.name,
        "num_rounds": num_rounds,
        "identical": identical(times),
        "peaks": meter.to_dict(),
        "bytes_per_pass": engine.info.bytes_per_pass,
        "rows": pass_rows(times, floor, peaks),
        "contexts": [context_entry(context, each, floor, peaks) for context, each in times.items()],
        "prompt": time_prompt(lm, prompt_tokens, min(num_rounds, 3)) if prompt_tokens else None,
        "profile": [
            {"rows": m, "context": context, "ms": times[context].bench.profile(m)} for context, m in profiled
        ],
    }

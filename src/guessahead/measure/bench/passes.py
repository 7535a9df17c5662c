"""`guessahead bench passes`: the time of a pass of m rows, and its minimum by the roofline."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

import guessahead._native as _native
from guessahead.checkpoints.gguf import GGUFFile
from guessahead.engines.native import NativeEngine
from guessahead.engines.native.architectures import ARCHITECTURES
from guessahead.engines.native.checkpoint import Checkpoint
from guessahead.errors import NotFiniteError, ParameterError
from guessahead.measure.bench.peaks import PeakMeter, Peaks, Work
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

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class PassFloor:
    """The minimum work of a pass: bytes to read and multiply-adds, from the model's file.

    weights: per pass (bytes) and per row (multiply-adds). attention: per cached position and row
    (multiply-adds); the cache's bytes are those that the engine allocates.
    """

    num_weight_bytes: int
    int8_macs: int
    f32_macs: int
    attention_macs: int

    @classmethod
    def of(cls, path: Path, engine: NativeEngine, *, int8: bool) -> PassFloor:
        """int8: quantised weights meet int8 activations."""
        with GGUFFile.open(path) as file:
            config = Checkpoint(file, tuple(ARCHITECTURES)).config
            untied = "output.weight" in file.tensors
            macs = {True: 0, False: 0}
            for name, tensor in file.tensors.items():
                if len(tensor.shape) == 2 and not (untied and name == "token_embd.weight"):
                    macs[int8 and tensor.type.block_size > 1] += math.prod(tensor.shape)
        attention = 2 * config.num_layers * config.num_heads * config.head_dim
        return cls(engine.info.bytes_per_pass, macs[True], macs[False], attention)

    def work(self, num_rows: int, num_positions: int, cache_bytes: float) -> Work:
        """The work of one pass of num_rows over a cache of num_positions and cache_bytes."""
        f32 = num_rows * (self.f32_macs + self.attention_macs * num_positions)
        return Work(self.num_weight_bytes + cache_bytes, num_rows * self.int8_macs, f32)


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
    """Seconds of passes by context and number of rows, sampled alternately."""

    benches: dict[int, Bench]
    rows: Sequence[int]
    samples: dict[tuple[int, int], list[float]] = field(default_factory=dict)

    def sample(self) -> None:
        """One pass of each kind."""
        for context, bench in self.benches.items():
            for num_rows in self.rows:
                self.samples.setdefault((context, num_rows), []).append(bench.run(num_rows))

    def seconds(self, context: int, num_rows: int) -> float:
        return median(self.samples[context, num_rows])

    def v(self, context: int, num_rows: int) -> float:
        """Time of a pass over that of one row, at the same context."""
        return self.seconds(context, num_rows) / self.seconds(context, 1)

    @property
    def identical(self) -> bool:
        """Whether every row of every pass chose what plain decoding chose."""
        return all(bench.all_identical for bench in self.benches.values())


def time_passes(
    lm: LanguageModel,
    *,
    contexts: Sequence[int],
    rows: Sequence[int],
    num_rounds: int,
    between: Callable[[], None],
) -> PassTimes:
    """Median-ready samples of every (context, rows), interleaved; one row is always among them.

    between: called before the first round, between rounds and after the last. Raises ParameterError if rows
    or contexts do not fit the model.
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
    times = PassTimes({context: Bench(engine, text[:context], rows[-1]) for context in contexts}, rows)
    times.sample()  # warm-up
    times.samples.clear()
    between()
    for index in range(num_rounds):
        times.sample()
        if index == num_rounds // 2:
            between()
    between()
    return times


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


def pass_rows(times: PassTimes, costs: PassFloor, peaks: Peaks) -> list[dict[str, Any]]:
    """The rows of the JSON document (benchmarks/README.md describes them)."""
    found = []
    for context, bench in times.benches.items():
        for num_rows in times.rows:
            least = peaks.least_seconds(costs.work(num_rows, context, bench.cache_bytes))
            seconds = times.seconds(context, num_rows)
            found.append(
                {
                    "rows": num_rows,
                    "context": context,
                    "ms": seconds * 1e3,
                    "v": times.v(context, num_rows),
                    "roofline_ms": least * 1e3,
                    "ratio_to_roofline": seconds / least,
                }
            )
    return found


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
    engine = native_engine(lm)
    profiled = [(context, m) for context in contexts for m in _PROFILED_ROWS if m <= times.rows[-1]]
    return {
        "benchmark": "passes",
        "model": lm.name,
        "num_rounds": num_rounds,
        "identical": times.identical,
        "peaks": meter.to_dict(),
        "bytes_per_pass": engine.info.bytes_per_pass,
        "rows": pass_rows(times, PassFloor.of(path, engine, int8=int8), meter.peaks),
        "prompt": time_prompt(lm, prompt_tokens, min(num_rounds, 3)) if prompt_tokens else None,
        "profile": [
            {"rows": m, "context": context, "ms": times.benches[context].profile(m)}
            for context, m in profiled
        ],
    }

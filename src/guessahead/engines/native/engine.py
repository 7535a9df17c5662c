"""The native engine behind the `Engine` protocol: cuts requests into passes and checks what it is given."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from guessahead import _native
from guessahead.engines.machine import usable_cores
from guessahead.engines.native.architectures import ARCHITECTURES, RunSettings
from guessahead.engines.native.checkpoint import Checkpoint
from guessahead.engines.native.choosing import chooser_arguments
from guessahead.engines.native.head import NativeHead, load_head
from guessahead.engines.native.head_host import HeadHost, fingerprint
from guessahead.engines.native.needs import Needs, memory_needs
from guessahead.errors import ModelError, ParameterError, PromptError, StateError
from guessahead.models.gguf import GGUFFile
from guessahead.protocols import EngineInfo, PassOutput, Rows, SequenceState
from guessahead.types import ChoiceContext, Float32, Int32

MAX_ROWS = 64
MAX_THREADS = 256
ACTIVATIONS = ("int8", "f32")
CACHES = ("f32", "f16")


class NativeSequence:
    """The cache of one running sequence (see `SequenceState`)."""

    def __init__(self, native: _native.Sequence) -> None:
        self._native: _native.Sequence | None = native
        self._chooser: _native.Chooser | None = None
        self._chooser_key: tuple[object, ...] = ()
        self.first_row = 0  # of the last `forward`'s rows, the one with which its last pass began

    @property
    def native(self) -> _native.Sequence:
        """The native object; StateError once the sequence is closed."""
        if self._native is None:
            raise StateError("this sequence is closed")
        return self._native

    @property
    def length(self) -> int:
        return self.native.length

    @property
    def num_bytes(self) -> int:
        """Bytes of cache pages this sequence holds, shared ones included."""
        return self.native.num_bytes

    def keep(self, path: Int32) -> None:
        try:
            self.native.keep(np.ascontiguousarray(path, np.int32) - np.int32(self.first_row))
        except ValueError as error:
            raise StateError(str(error)) from None

    def rollback(self, length: int) -> None:
        try:
            self.native.rollback(length)
        except ValueError:
            raise StateError(f"cannot roll back to {length}: the sequence has {self.length} tokens") from None

    def fork(self) -> SequenceState:
        return NativeSequence(self.native.fork())

    def chooser(self, context: ChoiceContext) -> _native.Chooser:
        """What chooses for this sequence. It is made once for a generation, and told of new tokens."""
        key = (context.params, context.prompt_length, context.eos_ids, context.stream)
        if self._chooser is None or self._chooser_key != key:
            self._chooser, self._chooser_key = _native.Chooser(**chooser_arguments(context)), key
        self._chooser.sync(context.history)
        return self._chooser

    def close(self) -> None:
        self._native = None


@dataclass(slots=True)
class _Job:
    """What is left to do for one request. offset: rows already run."""

    rows: Rows
    sequence: NativeSequence
    tokens: Int32
    parents: Int32 | None
    num_committed: int
    offset: int = 0
    num_passes: int = 0
    chosen: Int32 | None = None
    logits: dict[int, Float32] | None = None
    hidden: dict[int, list[Float32]] = field(default_factory=dict)

    @property
    def num_tentative(self) -> int:
        return len(self.tokens) - self.num_committed

    def next_size(self, max_rows: int) -> int:
        """Rows of the next pass: the rest if it fits, else as many committed ones as do."""
        left = len(self.tokens) - self.offset
        return left if left <= max_rows else min(max_rows, left - self.num_tentative - 1)


class NativeEngine:
    """A model loaded into the native engine. One pass at a time; safe to call from several threads."""

    def __init__(self, plan: _native.Plan, info: EngineInfo, head_host: HeadHost) -> None:
        """head_host: what the draft heads of the model share with it."""
        self._plan, self._info, self._head_host = plan, info, head_host

    @classmethod
    def from_gguf(
        cls,
        file: GGUFFile,
        *,
        threads: int | None = None,
        context: int | None = None,
        activations: str = "int8",
        cache: str = "f32",
        isa: str | None = None,
    ) -> NativeEngine:
        """Load a model.

        isa: "avx512", "avxvnni", "avx2", "neondot" or "scalar"; None = GUESSAHEAD_ISA, else the best here.

        Raises ModelError where the file cannot be used, ParameterError for impossible settings.
        """
        if threads is None:
            threads = min(usable_cores(), MAX_THREADS)
        if not 1 <= threads <= MAX_THREADS:
            raise ParameterError(f"threads is {threads}; it must be from 1 to {MAX_THREADS}")
        if activations not in ACTIVATIONS:
            known = ", ".join(ACTIVATIONS)
            raise ParameterError(f"activations is {activations!r}; it must be one of {known}")
        if cache not in CACHES:
            raise ParameterError(f"cache is {cache!r}; it must be one of {', '.join(CACHES)}")
        try:
            isa = _native.isa(isa or "")
        except ValueError as error:
            raise ParameterError(str(error)) from None
        checkpoint = Checkpoint(file, tuple(ARCHITECTURES))
        config = checkpoint.config
        if context is not None and not 1 <= context <= config.context_length:
            raise ParameterError(f"context is {context}; this model allows 1 to {config.context_length}")
        context = config.context_length if context is None else context
        pool = _native.Pool(threads)
        try:
            built = ARCHITECTURES[config.architecture](
                checkpoint,
                RunSettings(
                    pool, MAX_ROWS, context, int8=activations == "int8", half_cache=cache == "f16", isa=isa
                ),
            )
        except MemoryError:
            raise ModelError(f"{file.path}: not enough memory for its weights") from None
        info = EngineInfo(
            name=file.path.name if file.path.is_dir() else file.path.stem,
            architecture=config.architecture,
            num_layers=config.num_layers,
            vocab_size=config.vocab_size,
            context_length=context,
            bytes_per_pass=built.bytes_per_pass,
            max_rows=MAX_ROWS,
            dtype=activations,
            isa=built.plan.isa,
            threads=threads,
            cost_key=f"{built.plan.isa} {threads} {activations}",
        )
        head_host = HeadHost(
            fingerprint(config.architecture, config.num_layers, config.vocab_size, built.last_norm),
            pool,
            built.embeddings,
            built.plan.isa,
            activations == "int8",
            config.num_layers,
            context,
        )
        return cls(built.plan, info, head_host)

    @staticmethod
    def needs(
        file: GGUFFile, *, threads: int | None = None, context: int | None = None, cache: str = "f32"
    ) -> Needs:
        """What `from_gguf` with these settings will take in memory, from the file's header alone."""
        checkpoint = Checkpoint(file, tuple(ARCHITECTURES))
        return memory_needs(
            checkpoint,
            max_rows=MAX_ROWS,
            context=checkpoint.config.context_length if context is None else context,
            threads=min(usable_cores(), MAX_THREADS) if threads is None else threads,
            half_cache=cache == "f16",
        )

    @property
    def info(self) -> EngineInfo:
        return self._info

    @property
    def plan(self) -> _native.Plan:
        """The native plan, for profiles."""
        return self._plan

    @property
    def head_host(self) -> HeadHost:
        """What the draft heads of the model share with it."""
        return self._head_host

    def head(self, path: str = "") -> NativeHead | None:
        return load_head(self._head_host, path)

    def new_sequence(self) -> NativeSequence:
        return NativeSequence(self._plan.new_sequence())

    def forward(self, requests: Sequence[Rows]) -> list[PassOutput]:
        jobs = [self._job(rows) for rows in requests]
        if len(jobs) > 1 or any(len(job.tokens) > self._info.max_rows for job in jobs):
            _check_all(jobs, self._info)  # what ran before a faulty one would stay in the cache
        waiting = deque(jobs)
        while waiting:
            batch: list[tuple[_Job, int]] = []
            room = self._info.max_rows
            while waiting and (size := waiting[0].next_size(self._info.max_rows)) <= room:
                batch.append((waiting.popleft(), size))
                room -= size
            self._run(batch)
            waiting.extendleft(job for job, _ in reversed(batch) if job.offset < len(job.tokens))
        return [_output(job) for job in jobs]

    def _job(self, rows: Rows) -> _Job:
        if not isinstance(rows.sequence, NativeSequence):
            raise ParameterError("the sequence belongs to another engine")
        tokens = np.ascontiguousarray(rows.token_ids, np.int32)
        parents = None if rows.parents is None else np.ascontiguousarray(rows.parents, np.int32)
        choose_from = len(tokens) - 1 if rows.choose_from is None else rows.choose_from
        return _Job(rows, rows.sequence, tokens, parents, choose_from + 1)

    def _run(self, batch: list[tuple[_Job, int]]) -> None:
        """One pass over the next rows of each job."""
        groups = []
        for job, size in batch:
            end = job.offset + size
            is_last = end == len(job.tokens)
            parents = None
            if is_last and job.parents is not None:
                parents = np.maximum(job.parents[job.offset :] - job.offset, -1).astype(np.int32)
            num_committed = job.num_committed - job.offset if is_last else size
            chooser = None
            if is_last and job.rows.context is not None:
                chooser = job.sequence.chooser(job.rows.context)
            groups.append(
                _native.RowGroup(
                    sequence=job.sequence.native,
                    tokens=job.tokens[job.offset : end],
                    parents=parents,
                    committed=num_committed,
                    chooser=chooser,
                    logits=job.rows.want_logits if chooser is not None else "none",
                )
            )
        taps = sorted({layer for job, _ in batch for layer in job.rows.want_hidden})
        try:
            results = self._plan.forward(groups, taps)
        except (ValueError, IndexError, TypeError, RuntimeError):  # refused before anything was done: say why
            for job, _ in batch:
                _check(job, self._info)
            raise
        for (job, size), result in zip(batch, results, strict=True):
            if job.rows.want_hidden:
                hidden = result.hidden
                for layer in set(job.rows.want_hidden):
                    job.hidden.setdefault(layer, []).append(hidden[layer])
            if result.logits:
                job.logits = {row + job.offset: values for row, values in result.logits.items()}
            if job.offset + size == len(job.tokens):
                job.chosen = result.chosen
            job.sequence.first_row = job.offset
            job.offset += size
            job.num_passes += 1


def _output(job: _Job) -> PassOutput:
    chosen = job.chosen
    if chosen is None or len(chosen) < len(job.tokens):  # earlier passes chose nothing
        chosen = np.full(len(job.tokens), -1, np.int32)
        if job.chosen is not None:
            chosen[len(job.tokens) - len(job.chosen) :] = job.chosen
    hidden = {
        layer: parts[0] if len(parts) == 1 else np.concatenate(parts) for layer, parts in job.hidden.items()
    }
    return PassOutput(chosen, job.logits, hidden or None, job.num_passes)


def _check_all(jobs: list[_Job], info: EngineInfo) -> None:
    """Raises as `Engine.forward`: jobs that cannot be run together, or one of them not at all."""
    if len({id(job.sequence) for job in jobs}) != len(jobs):
        raise ParameterError("a sequence appears twice in one call")
    for job in jobs:
        _check(job, info)


def _check(job: _Job, info: EngineInfo) -> None:
    """Raises as `Engine.forward` for one that cannot be run."""
    tokens, parents, choose_from = job.tokens, job.parents, job.num_committed - 1
    if tokens.ndim != 1 or len(tokens) == 0:
        raise ParameterError("a request needs at least one row")
    if int(tokens.min()) < 0 or int(tokens.max()) >= info.vocab_size:
        raise ParameterError(f"token ids must be from 0 to {info.vocab_size - 1}")
    if not 0 <= choose_from < len(tokens):
        raise ParameterError(f"choose_from is {choose_from}; there are {len(tokens)} rows")
    if parents is not None:
        _check_parents(parents, len(tokens), choose_from)
    if job.num_tentative + 1 > info.max_rows:
        raise ParameterError(f"{job.num_tentative} guesses are too many for {info.max_rows} rows a pass")
    longest = job.num_committed + _depth(parents, choose_from, job.num_tentative)
    num_tokens = job.sequence.length + longest
    if num_tokens > info.context_length:
        raise PromptError(f"{num_tokens} tokens do not fit into a context of {info.context_length}")
    wrong = [layer for layer in job.rows.want_hidden if not 0 <= layer < info.num_layers]
    if wrong:
        raise ParameterError(f"there is no layer {wrong[0]}: the model has {info.num_layers}")


def _check_parents(parents: Int32, num_rows: int, choose_from: int) -> None:
    if len(parents) != num_rows:
        raise ParameterError(f"{num_rows} rows need {num_rows} parents, not {len(parents)}")
    index = np.arange(num_rows)
    if np.any(parents[: choose_from + 1] != index[: choose_from + 1] - 1):
        raise ParameterError("rows up to choose_from must be a chain")
    tentative = parents[choose_from + 1 :]
    if np.any(tentative < choose_from) or np.any(tentative >= index[choose_from + 1 :]):
        raise ParameterError("a tentative row's parent must be row choose_from or an earlier tentative row")


def _depth(parents: Int32 | None, choose_from: int, num_tentative: int) -> int:
    """Length of the longest path of tentative rows."""
    if parents is None:
        return num_tentative
    depth = [0] * (num_tentative + 1)  # [0] is row choose_from
    for i, parent in enumerate(parents[choose_from + 1 :].tolist(), start=1):
        depth[i] = depth[parent - choose_from] + 1
    return max(depth)

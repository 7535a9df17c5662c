"""The native engine: it cuts requests into passes and checks them."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import guessahead._native as _native
from guessahead.checkpoints.gguf import GGUFFile
from guessahead.engines.machine import usable_cores
from guessahead.engines.native.architectures import ARCHITECTURES, RunSettings
from guessahead.engines.native.checkpoint import Checkpoint
from guessahead.engines.native.choosing import choice_masks
from guessahead.engines.native.head import NativeHead, load_head
from guessahead.engines.native.head_host import HeadHost, fingerprint
from guessahead.engines.native.jobs import Job, check, check_all, output_of
from guessahead.engines.native.needs import Needs, memory_needs
from guessahead.engines.native.sequence import NativeSequence
from guessahead.errors import ModelError, ModelWarning, ParameterError
from guessahead.protocols import EngineInfo, PassOutput, Rows

MAX_ROWS = 64
MAX_THREADS = 256
ACTIVATIONS = ("int8", "f32")
CACHES = ("f32", "f16")


class NativeEngine:
    """A model loaded into the native engine. One pass at a time; safe to call from several threads."""

    def __init__(self, plan: _native.Plan, info: EngineInfo, head_host: HeadHost) -> None:
        """head_host: the parts that the model's draft heads share with it."""
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

        isa: "avx512", "avxvnni", "avx2", "neondot" or "scalar"; None = GUESSAHEAD_ISA, else the best one.
        Raises ModelError if the file cannot be used, ParameterError for impossible settings.
        """
        if threads is None:
            threads = min(usable_cores(), MAX_THREADS)
        _check_settings(threads, activations, cache)
        try:
            isa = _native.isa(isa or "")
        except ValueError as error:
            raise ParameterError(str(error)) from None
        checkpoint = Checkpoint(file, tuple(ARCHITECTURES))
        config = checkpoint.config
        if context is not None and not 1 <= context <= config.context_length:
            raise ParameterError(f"context is {context}; this model allows 1 to {config.context_length}")
        context = config.context_length if context is None else context
        pool = _workers(threads)
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
            name=_name(file.path),
            architecture=config.architecture,
            num_layers=config.num_layers,
            vocab_size=config.vocab_size,
            context_length=context,
            bytes_per_pass=built.bytes_per_pass,
            max_rows=MAX_ROWS,
            dtype=activations,
            isa=built.plan.isa,
            threads=pool.size,
            cost_key=f"{built.plan.isa} {pool.size} {activations}",
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
        """The memory that `from_gguf` with these settings will take, from the file's header alone."""
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
        """The native plan, for profiling."""
        return self._plan

    @property
    def head_host(self) -> HeadHost:
        """The parts that the model's draft heads share with it."""
        return self._head_host

    def head(self, path: str = "") -> NativeHead | None:
        return load_head(self._head_host, path)

    def new_sequence(self) -> NativeSequence:
        return NativeSequence(self._plan.new_sequence())

    def forward(self, requests: Sequence[Rows]) -> list[PassOutput]:
        jobs = [self._job(rows) for rows in requests]
        if len(jobs) > 1 or any(len(job.tokens) > self._info.max_rows for job in jobs):
            check_all(jobs, self._info)  # rows run before a faulty request would stay in the cache
        waiting = deque(jobs)
        while waiting:
            batch: list[tuple[Job, int]] = []
            room = self._info.max_rows
            while waiting and (size := waiting[0].next_size(self._info.max_rows)) <= room:
                batch.append((waiting.popleft(), size))
                room -= size
            self._run(batch)
            waiting.extendleft(job for job, _ in reversed(batch) if job.offset < len(job.tokens))
        return [output_of(job) for job in jobs]

    def _job(self, rows: Rows) -> Job:
        if not isinstance(rows.sequence, NativeSequence):
            raise ParameterError("the sequence belongs to another engine")
        tokens = np.ascontiguousarray(rows.token_ids, np.int32)
        parents = None if rows.parents is None else np.ascontiguousarray(rows.parents, np.int32)
        choose_from = len(tokens) - 1 if rows.choose_from is None else rows.choose_from
        return Job(rows, rows.sequence, tokens, parents, choose_from + 1)

    def _run(self, batch: list[tuple[Job, int]]) -> None:
        """One pass over the next rows of each job."""
        groups = []
        for job, size in batch:
            end = job.offset + size
            is_last = end == len(job.tokens)
            parents = None
            if is_last and job.parents is not None:
                parents = np.maximum(job.parents[job.offset :] - job.offset, -1).astype(np.int32)
            num_committed = job.num_committed - job.offset if is_last else size
            chooser = masks = None
            if is_last and (context := job.rows.context) is not None:
                chooser = job.sequence.chooser(context)
                masks = choice_masks(context, *job.guesses)
            groups.append(
                _native.RowGroup(
                    sequence=job.sequence.native,
                    tokens=job.tokens[job.offset : end],
                    parents=parents,
                    committed=num_committed,
                    chooser=chooser,
                    logits=job.rows.want_logits if chooser is not None else "none",
                    masks=masks,
                )
            )
        taps = sorted({layer for job, _ in batch for layer in job.rows.want_hidden})
        try:
            results = self._plan.forward(groups, taps)
        except (ValueError, IndexError, TypeError, RuntimeError):  # refused before running: find the reason
            for job, _ in batch:
                check(job, self._info)
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


def _check_settings(threads: int, activations: str, cache: str) -> None:
    """Raise ParameterError for settings that no model can have."""
    if not 1 <= threads <= MAX_THREADS:
        raise ParameterError(f"threads is {threads}; it must be from 1 to {MAX_THREADS}")
    if activations not in ACTIVATIONS:
        raise ParameterError(f"activations is {activations!r}; it must be one of {', '.join(ACTIVATIONS)}")
    if cache not in CACHES:
        raise ParameterError(f"cache is {cache!r}; it must be one of {', '.join(CACHES)}")


def _workers(wanted: int) -> _native.Pool:
    """So many worker threads, or as many as the system allows, with a warning."""
    pool = _native.Pool(wanted)
    if pool.size < wanted:
        line = f"the system lets this process start only {pool.size} of {wanted} worker threads"
        warnings.warn(line, ModelWarning, stacklevel=3)
    return pool


def _name(path: Path) -> str:
    """The name of a file, as text that can be written in any encoding of Unicode."""
    name = path.name if path.is_dir() else path.stem
    return name.encode("utf-8", errors="replace").decode()

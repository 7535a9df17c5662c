"""Jobs of the native engine: the state of a request between its passes, and its checks."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from guessahead.engines.native.sequence import NativeSequence
from guessahead.errors import ParameterError, PromptError
from guessahead.protocols import EngineInfo, PassOutput, Rows
from guessahead.types import Float32, Int32


@dataclass(slots=True)
class Job:
    """The remaining work of one request. offset: rows already run."""

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

    @property
    def guesses(self) -> tuple[Int32, Int32 | None]:
        """The tentative rows' tokens, and their parents by number, 0 = the last committed row."""
        tokens = self.tokens[self.num_committed :]
        if self.parents is None:
            return tokens, None
        return tokens, self.parents[self.num_committed :] - np.int32(self.num_committed - 1)

    def next_size(self, max_rows: int) -> int:
        """Rows of the next pass: all that remain if they fit, else as many committed ones as fit."""
        left = len(self.tokens) - self.offset
        return left if left <= max_rows else min(max_rows, left - self.num_tentative - 1)


def output_of(job: Job) -> PassOutput:
    chosen = job.chosen
    if chosen is None or len(chosen) < len(job.tokens):  # earlier passes chose nothing
        chosen = np.full(len(job.tokens), -1, np.int32)
        if job.chosen is not None:
            chosen[len(job.tokens) - len(job.chosen) :] = job.chosen
    hidden = {
        layer: parts[0] if len(parts) == 1 else np.concatenate(parts) for layer, parts in job.hidden.items()
    }
    return PassOutput(chosen, job.logits, hidden or None, job.num_passes)


def check_all(jobs: list[Job], info: EngineInfo) -> None:
    """Raise the errors of `Engine.forward` for jobs that cannot be run, alone or together."""
    if len({id(job.sequence) for job in jobs}) != len(jobs):
        raise ParameterError("a sequence appears twice in one call")
    for job in jobs:
        check(job, info)


def check(job: Job, info: EngineInfo) -> None:
    """Raise the errors of `Engine.forward` for a job that cannot be run."""
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
        raise ParameterError(f"{job.num_tentative} guesses are too many for a pass of {info.max_rows} rows")
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

"""The interfaces between the layers: `Engine` (passes over rows), `Runner` (requests to chunks), and smaller
ones between them. An implementation declares what it can do, and its callers use nothing but the interface.

An engine runs *passes*. A pass takes rows: one row is one token of one sequence, with a parent (another
row, or the sequence's last cached token). An engine whose identity is "bits" guarantees row independence: the
result of a row depends on its token, its position and its ancestors, to the bit, and never on the other rows
of the pass, on how a prompt was cut into passes, or on the number of threads.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from guessahead.types import (
        Ask,
        ChoiceContext,
        Chunk,
        Draft,
        Float32,
        Generation,
        Int32,
        Request,
        TreeShape,
        Verdict,
    )

Identity = Literal["bits", "none"]
"""Whether a row's results are the same to the bit in every pass, so that texts are identical."""


class SequenceState(Protocol):
    """The cache of one running sequence.

    With N committed tokens it holds N - 1; the last one is *pending* and enters with the next pass.
    """

    @property
    def length(self) -> int:
        """Number of tokens in the cache."""

    def keep(self, path: Int32) -> None:
        """Commit tentative rows of the last `forward`: row indices, each a child of the one before.

        The first must be a child of row `choose_from`. Tentative rows that are not listed are dropped (an
        empty path drops all; the next `forward` also drops those that remain). Raises StateError if the rows
        do not form a path.
        """

    def rollback(self, length: int) -> None:
        """Forget all tokens from position `length` on. Raises StateError if length > self.length."""

    def fork(self) -> SequenceState:
        """A second sequence with the same cached tokens; pages are shared until one of the two writes."""

    def close(self) -> None:
        """Free the memory. A closed sequence raises StateError on every other call."""


WantedLogits = Literal["none", "path", "all"]
"""The rows whose logits a pass returns: none, those with a chosen token, or all from choose_from on."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one sequence for one call of `Engine.forward`.

    token_ids: m tokens. First the committed tokens that the cache does not hold yet, then the draft.
    parents: parent row, -1 = the sequence's last cached token; parents[i] < i; None = a chain.
    context: how to choose; None = choose nothing (the rows only fill the cache).
    choose_from: index of the last committed row; default: the last row. Rows up to it form a chain and enter
        the cache at once. Rows after it are tentative (its descendants, see `SequenceState.keep`). The engine
        chooses a token for this row, moves to the child row that holds the chosen token, chooses there, and
        so on. `context.history` ends with the token of this row.
    want_logits: also return logits; with "all" the engine chooses nothing, and the caller judges.
    want_hidden: layers whose hidden states to return (output of layer i; see `EngineInfo.num_layers`).
    """

    sequence: SequenceState
    token_ids: Int32
    parents: Int32 | None = None
    context: ChoiceContext | None = None
    choose_from: int | None = None
    want_logits: WantedLogits = "none"
    want_hidden: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PassOutput:
    """The result of a pass for one `Rows`.

    chosen: int32[m]; the chosen token of each row on the chosen path, which ends with NOT_FINITE at a row
        with a logit that is not finite; -1 for all other rows.
    logits: row index -> float32[vocab], for the requested rows.
    hidden: layer -> float32[m, width], if requested.
    num_passes: passes over the weights that the call needed for this `Rows` (1, or more for a long prompt).
    """

    chosen: Int32
    logits: Mapping[int, Float32] | None = None
    hidden: Mapping[int, Float32] | None = None
    num_passes: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineInfo:
    """Facts about a loaded model, and what its engine can do.

    name, architecture: of the model. num_layers, vocab_size: its sizes. context_length: most positions.
    bytes_per_pass: weight bytes that one pass reads (for GB/s). max_rows: most rows of a pass.
    identity: see `Identity`. device, dtype: where and in which number format products are computed. isa:
        instruction set of the kernels, "" = unknown. threads: worker threads.
    cost_key: everything except the model that the time of a pass depends on; "" = do not store times.
    max_rollback: most tokens that `rollback` can remove; None = any number.
    takes_trees: whether tentative rows may branch.
    """

    name: str
    architecture: str
    num_layers: int
    vocab_size: int
    context_length: int
    bytes_per_pass: int
    max_rows: int
    identity: Identity = "bits"
    device: str = "cpu"
    dtype: str = "f32"
    isa: str = ""
    threads: int = 1
    cost_key: str = ""
    max_rollback: int | None = None
    takes_trees: bool = True


class Engine(Protocol):
    """A loaded model that runs passes over rows."""

    @property
    def info(self) -> EngineInfo: ...

    def new_sequence(self) -> SequenceState:
        """An empty sequence."""

    def head(self, path: str = "") -> DraftHead | None:
        """The draft head in a folder; "" = the one that belongs to the model; None if there is none.

        Raises ModelError if it is damaged or was made for another model.
        """

    def forward(self, requests: Sequence[Rows]) -> list[PassOutput]:
        """Run the rows of all requests, in one pass where they fit; the outputs have the same order.

        Any number of committed rows is allowed; they are cut into passes as needed. From `choose_from` on
        there are at most `info.max_rows` rows. Every request needs its own sequence.
        Raises ParameterError for malformed rows, PromptError if the context would overflow.
        """


class HeadSequence(Protocol):
    """The cache of a draft head that guesses for one sequence, and its passes."""

    @property
    def length(self) -> int: ...

    def rollback(self, length: int) -> None: ...

    def read(self, next_ids: Int32, fused: Float32) -> tuple[Float32, Float32, Float32]:
        """Add rows (the target's hidden states at t; the token at t + 1), and guess after the last one.

        next_ids: int32[n], n >= 1. fused: float32[n, layers * width]. Returns, for the last row, its fused
        hidden states and the head's state, float32[1, width] each, and its logits float32[1, vocab_size].
        """

    def draft(self, next_ids: Int32, fused: Float32, ask: Ask, shape: TreeShape) -> Draft:
        """`read`, and the most likely guesses of a tree after the last row, `ask.budget` at most.

        Each level is made from the most likely guesses of the one before. The guesses are not kept. Empty
        where a logit is not finite.
        """

    def grow(self, tokens: Int32, states: Float32, parents: Int32) -> tuple[Float32, Mapping[int, Float32]]:
        """Guess after earlier guesses, a tree below the last row that was read, which is row 0 here.

        tokens: int32[n]: of that row, then the guesses. states: float32[n, width]: the fused hidden states
        that `read` returned, then the state that made each guess. parents: int32[n], -1 for row 0. The
        guesses are not kept. Returns the states float32[n, width], and row -> logits.
        """


class DraftHead(Protocol):
    """A draft head (heads/), for any number of sequences.

    layers: of the target whose hidden states it reads. draft_ids: int32[n], for each of its ids the target's.
    context_length: most positions. bytes_per_pass: weight bytes that one guess reads.
    """

    layers: tuple[int, ...]
    draft_ids: Int32
    context_length: int
    bytes_per_pass: int

    def new_sequence(self) -> HeadSequence: ...


class Policy(Protocol):
    """Decides how much to guess, step by step; FixedGamma and Controller are policies."""

    def begin(self, context: ChoiceContext, budget: int) -> None:
        """Begin a step, in which at most `budget` guesses can be emitted."""

    def ask(self) -> tuple[Proposer, Ask] | None:
        """The next drafter to call in this step, and its request; None = the draft is ready."""

    def answer(self, draft: Draft, seconds: float) -> None:
        """Take the guesses for the last `ask`, and the time they took."""

    def draft(self) -> Draft:
        """The guesses to verify."""

    def observe(
        self, verdict: Verdict, num_rows: int, context_length: int, pass_seconds: float, seconds: float
    ) -> None:
        """Learn from the verdict on these guesses.

        num_rows: of the pass, after `context_length` cached tokens. seconds: of the whole step.
        """

    def why(self) -> dict[str, Any] | None:
        """The reasons for the last draft, ready for JSON; None if they were not requested."""


class Proposer(Protocol):
    """A source of guesses: a drafter (drafters/base.py)."""

    def propose(self, ask: Ask) -> Draft:
        """At most ask.budget guesses."""


@dataclass(frozen=True, slots=True)
class RunnerInfo:
    """Facts about a runner, and what it can do.

    engine: of the target. batches: whether it serves several requests at once. acceptances: the values of
        `Request.acceptance` that it honours.
    """

    name: str
    engine: EngineInfo
    batches: bool = False
    acceptances: tuple[str, ...] = ("identical",)


@dataclass(frozen=True, slots=True)
class DrafterSettings:
    """The name of a drafter and its options. draft_model: the runner of a second model."""

    name: str = "none"
    options: Mapping[str, str | int | float] = field(default_factory=dict)
    draft_model: Runner | None = None


class Model(Protocol):
    """The part of a loaded model that another model needs to use it as a draft model."""

    runner: Runner
    identity: str


class Runner(Protocol):
    """Turns requests into chunks of text."""

    @property
    def info(self) -> RunnerInfo: ...

    def stream(self, request: Request, drafter: DrafterSettings) -> Generator[Chunk, None, Generation]:
        """One chunk per step, as soon as it is final; the generator's return value is the Generation.
        Closing the generator early frees everything that it holds. Raises ParameterError or PromptError at
        once for options that cannot be honoured.
        """

    def session(self) -> Runner:
        """A runner of the same model that keeps its cache from one request to the next, until `close`."""

    def close(self) -> None:
        """Free the cache of a session."""

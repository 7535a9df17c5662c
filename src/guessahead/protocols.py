"""What the layers promise each other: `Engine` (passes over rows), `Runner` (requests to chunks), and the
smaller seams between them. Who implements one declares what it can do; nobody asks past it.

An engine runs *passes*. A pass takes rows: one row is one token of one sequence, with a parent (another
row, or the sequence's last cached token). An engine whose identity is "bits" promises row independence: what
a row yields depends on its token, its position and its ancestors, to the bit, and never on the other rows
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

        The first must be a child of row `choose_from`. Tentative rows that are not named are dropped (an
        empty path drops all; the next `forward` drops what is left, too). Raises StateError where the path
        is not one.
        """

    def rollback(self, length: int) -> None:
        """Forget all tokens from position `length` on. Raises StateError if length > self.length."""

    def fork(self) -> SequenceState:
        """A second sequence with the same cached tokens; pages are shared until one of the two writes."""

    def close(self) -> None:
        """Give the memory back. A closed sequence refuses every other call."""


WantedLogits = Literal["none", "path", "all"]
"""Of which rows a pass returns logits: none, those that were chosen for, or all from choose_from on."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one sequence for one call of `Engine.forward`.

    token_ids: m tokens. Row 0.. first the committed tokens that the cache does not hold yet, then the draft.
    parents: parent row, -1 = the sequence's last cached token; parents[i] < i; None = a chain.
    context: how to choose; None = choose nothing (the rows only fill the cache).
    choose_from: index of the last committed row; default: the last row. Rows up to it form a chain and enter
        the cache at once. Rows after it are tentative (its descendants, see `SequenceState.keep`). The engine
        chooses a token for this row, goes on to its child row that holds the chosen token, chooses there, and
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
    """What a pass yields for one `Rows`.

    chosen: int32[m]; the chosen token of each row on the chosen path, -1 for rows that were not asked.
    logits: row index -> float32[vocab], for the rows that were wanted.
    hidden: layer -> float32[m, width], if wanted.
    num_passes: passes over the weights that the call took for this `Rows` (1, or more for a long prompt).
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
    identity: see `Identity`. device, dtype: where and in what products are computed. isa: instruction set of
        the kernels, "" = not known. threads: worker threads.
    cost_key: all that the time of a pass depends on, beside the model; "" = times are not worth keeping.
    max_rollback: most tokens that `rollback` can forget; None = any number.
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
        """The draft head in a folder; "" = the one that belongs to the model; None where there is none.

        Raises ModelError where it is damaged, or made for another model.
        """

    def forward(self, requests: Sequence[Rows]) -> list[PassOutput]:
        """Run the rows of all requests, together where they fit; outputs in the same order.

        The committed rows may be of any number and are cut into passes as needed; from `choose_from` on
        there are at most `info.max_rows` rows. Every request needs a sequence of its own.
        Raises ParameterError for malformed rows, PromptError where the context would overflow.
        """


class HeadSequence(Protocol):
    """The cache of a draft head that guesses for one sequence, and its passes."""

    @property
    def length(self) -> int: ...

    def rollback(self, length: int) -> None: ...

    def read(self, next_ids: Int32, fused: Float32) -> tuple[Float32, Float32, Float32]:
        """Take in rows (the target's hidden states at t; the token at t + 1), and guess behind the last.

        next_ids: int32[n], n >= 1. fused: float32[n, layers * width]. Returns for the last row what
        was made of its hidden states and the head's state, float32[1, width] each, and its logits
        float32[1, vocab_size].
        """

    def grow(self, tokens: Int32, states: Float32, parents: Int32) -> tuple[Float32, Mapping[int, Float32]]:
        """Go on behind guesses that hang below the last row that was read, which is row 0 here.

        tokens: int32[n]: of that row, then the guesses. states: float32[n, width]: what `read` made of its
        hidden states; the state in which each guess was made. parents: int32[n], -1 for row 0. The guesses
        are not kept. Returns the states float32[n, width], and row -> logits.
        """


class DraftHead(Protocol):
    """A draft head (heads/), for any number of sequences.

    layers: of the target, whose hidden states it reads. draft_ids: int32[n], the target's ids of its own.
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
        """A step begins, in which at most `budget` guesses make sense."""

    def ask(self) -> tuple[Proposer, Ask] | None:
        """The next drafter to ask in this step, and the question; None = the draft is ready."""

    def answer(self, draft: Draft, seconds: float) -> None:
        """What came back from the last `ask`, and how long it took."""

    def draft(self) -> Draft:
        """The guesses to verify."""

    def observe(
        self, verdict: Verdict, num_rows: int, context_length: int, pass_seconds: float, seconds: float
    ) -> None:
        """What became of them.

        num_rows: of the pass, behind `context_length` cached tokens. seconds: of the whole step.
        """

    def why(self) -> dict[str, Any] | None:
        """The reasons for the last draft, ready for JSON, if they were asked for."""


class Proposer(Protocol):
    """What can be asked for guesses: a drafter (drafters/base.py)."""

    def propose(self, ask: Ask) -> Draft:
        """At most ask.budget guesses."""


@dataclass(frozen=True, slots=True)
class RunnerInfo:
    """What a runner is and can do.

    engine: of the target. batches: whether it serves several requests at once. acceptances: the values of
        `Request.acceptance` that it honours.
    """

    name: str
    engine: EngineInfo
    batches: bool = False
    acceptances: tuple[str, ...] = ("identical",)


@dataclass(frozen=True, slots=True)
class DrafterSettings:
    """Which drafter guesses, by name, with its options; draft_model: the runner of a second model."""

    name: str = "none"
    options: Mapping[str, str | int | float] = field(default_factory=dict)
    draft_model: Runner | None = None


class Model(Protocol):
    """A loaded model, as far as another one needs it as a draft model."""

    runner: Runner
    identity: str


class Runner(Protocol):
    """Turns requests into chunks of text."""

    @property
    def info(self) -> RunnerInfo: ...

    def stream(self, request: Request, drafter: DrafterSettings) -> Generator[Chunk, None, Generation]:
        """One chunk per step as soon as it is certain; the generator's return value is the Generation.

        Closing the generator early frees all that it holds. Raises ParameterError or PromptError at once for
        what cannot be honoured.
        """

    def session(self) -> Runner:
        """A runner of the same model that keeps its cache from one request to the next, until `close`."""

    def close(self) -> None:
        """Free what a session keeps."""

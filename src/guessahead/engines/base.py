"""What the loop asks of a loaded model.

An engine runs *passes*. A pass takes rows: one row is one token of one sequence, with a parent (another
row, or the sequence's last cached token). The promise that everything rests on is row independence: what
a row yields depends on its token, its position and its ancestors, to the bit, and never on the other rows
of the pass, on how a prompt was cut into passes, or on the number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from guessahead.types import Choice, Float32, Int32


class SequenceState(Protocol):
    """The cache of one running sequence."""

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


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one sequence for one call of `Engine.forward`.

    token_ids: m tokens. Row 0.. first the committed tokens that the cache does not hold yet, then the draft.
    parents: parent row, -1 = the sequence's last cached token; parents[i] < i; None = a chain.
    choice: how to choose; None = choose nothing (the rows only fill the cache).
    choose_from: index of the last committed row; default: the last row. Rows up to it form a chain and enter
        the cache at once. Rows after it are tentative (its descendants, see `SequenceState.keep`). The engine
        chooses a token for this row, goes on to its child row that holds the chosen token, chooses there, and
        so on. `choice.history` ends with the token of this row.
    want_logits: also return the logits of every row that was chosen for.
    want_hidden: layers whose hidden states to return (output of layer i; see `Engine.info.num_layers`).
    """

    sequence: SequenceState
    token_ids: Int32
    parents: Int32 | None = None
    choice: Choice | None = None
    choose_from: int | None = None
    want_logits: bool = False
    want_hidden: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PassOutput:
    """What a pass yields for one `Rows`.

    chosen: int32[m]; the chosen token of each row on the chosen path, -1 for rows that were not asked.
    logits: row index -> float32[vocab], for the rows that were chosen for, if wanted.
    hidden: layer -> float32[m, width], if wanted.
    num_passes: passes over the weights that the call took for this `Rows` (1, or more for a long prompt).
    """

    chosen: Int32
    logits: dict[int, Float32] | None = None
    hidden: dict[int, Float32] | None = None
    num_passes: int = 1


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """Facts about a loaded model. bytes_per_pass: weight bytes that one pass reads (for GB/s)."""

    name: str
    architecture: str
    num_layers: int
    vocab_size: int
    context_length: int
    bytes_per_pass: int
    max_rows: int


class Engine(Protocol):
    """A loaded model."""

    @property
    def info(self) -> EngineInfo: ...

    def new_sequence(self) -> SequenceState:
        """An empty sequence."""

    def forward(self, requests: list[Rows]) -> list[PassOutput]:
        """Run the rows of all requests, together where they fit; outputs in the same order.

        The committed rows may be of any number and are cut into passes as needed; from `choose_from` on
        there are at most `info.max_rows` rows. Every request needs a sequence of its own.
        Raises ParameterError for malformed rows, PromptError where the context would overflow.
        """

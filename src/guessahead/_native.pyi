"""What native/bindings.cpp, choose_bindings.cpp and suffix_bindings.cpp offer to Python.

tests/native/test_stub.py compares names and arguments with the module.
"""

from collections.abc import Mapping as _Mapping
from collections.abc import Sequence as _Sequence

import numpy as _np
import numpy.typing as _npt

_Bytes = _npt.NDArray[_np.uint8]
_Int32 = _npt.NDArray[_np.int32]
_Float32 = _npt.NDArray[_np.float32]
_Float64 = _npt.NDArray[_np.float64]

FORMATS: _Sequence[str]
PAGE: int

def isa(wanted: str = "") -> str:
    """Name of the instruction set that runs; "" = GUESSAHEAD_ISA, else the best. ValueError where it cannot be used."""

def isas() -> list[str]:
    """Names of the instruction sets that can be used here, the best first."""

def read_bandwidth(pool: Pool) -> float:
    """Bytes per second that all workers together read from memory."""

def peak(pool: Pool, isa: str = "", unit: str = "int8") -> float:
    """Multiply-adds per second of all workers together; unit: "int8" or "f32"."""

class Pool:
    """Worker threads; the caller is one of them."""

    def __init__(self, threads: int) -> None: ...
    @property
    def size(self) -> int: ...

def packed_bytes(format: str, n: int, k: int) -> int:
    """What a packed matrix takes of an arena."""

class Arena:
    """Memory for matrices, handed out front to back: one stream per worker."""

    def __init__(self, num_bytes_per_stream: int, num_streams: int) -> None: ...

class Matrix:
    """A weight matrix of n outputs by k inputs, repacked into tiles."""

    @staticmethod
    def pack(
        pool: Pool,
        format: str,
        n: int,
        k: int,
        data: _Bytes,
        order: _Int32 | None = None,
        arena: Arena | None = None,
    ) -> Matrix:
        """data: the bytes of the file, row by row. order: which row of it becomes output i.

        arena: where the matrix shall lie; default: by itself.
        """

    @property
    def n(self) -> int: ...
    @property
    def k(self) -> int: ...
    @property
    def num_bytes(self) -> int: ...
    @property
    def format(self) -> str: ...
    def dequantise(self) -> _Float32:
        """All values, float32[n, k]."""

    def matmul(self, pool: Pool, x: _Float32, isa: str = "", int8: bool = True) -> _Float32:
        """x float32[m, k] -> float32[m, n]."""

    def time_matmul(
        self,
        pool: Pool,
        x: _Float32,
        isa: str = "",
        int8: bool = True,
        repeats: int = 20,
        streamed: bool = True,
    ) -> list[float]:
        """Seconds of each product; streamed: the weights come from memory, else from a cache."""

class Sequence:
    """The cache of one running sequence. ValueError for a path or a length that it does not have."""

    @property
    def length(self) -> int: ...
    @property
    def num_bytes(self) -> int: ...
    def keep(self, path: _Int32, /) -> None: ...
    def rollback(self, length: int, /) -> None: ...
    def fork(self) -> Sequence: ...
    def cached(self, layer: int) -> tuple[_Float32, _Float32]:
        """Keys and values of one layer, float32[length, heads, head_dim] each."""

class Chooser:
    """choose() along one path; arguments from guessahead.core.sampling.chooser_arguments."""

    def __init__(
        self,
        *,
        temperature: float,
        top_k: int,
        top_p: float,
        min_p: float,
        repetition_penalty: float,
        frequency_penalty: float,
        presence_penalty: float,
        logit_bias: _Sequence[tuple[int, float]],
        eos_ids: _Sequence[int],
        min_tokens: int,
        seed: int,
        stream: int,
        history: _Int32,
        prompt_length: int,
        forced: _Sequence[int],
    ) -> None: ...
    def choose(self, logits: _Float32) -> int:
        """The token that follows history + pushed; logits: float32[vocab]."""

    def push(self, token: int) -> None:
        """Append a token to the path."""

# (sequence, tokens, parents or None, committed, chooser or None, logits wanted, float32[rows, n] or None)
# logits wanted: 0 = none, 1 = of the rows that were chosen for, 2 = of all from the last committed one on
_Request = tuple[Sequence, _Int32, _Int32 | None, int, Chooser | None, int, _Float32 | None]
# (chosen, row -> logits or None, tap -> float32[rows, width])
_Output = tuple[_Int32, dict[int, _Float32] | None, dict[int, _Float32]]

class Plan:
    """The operations of one pass over preallocated buffers, which are named by the numbers `buffer` gives."""

    def __init__(
        self,
        layers: int,
        kv_heads: int,
        head_dim: int,
        max_rows: int,
        context: int,
        pool: Pool,
        isa: str = "",
        half_cache: bool = False,
    ) -> None: ...
    @property
    def isa(self) -> str: ...
    def buffer(self, width: int, quantised: bool = False, compact: bool = False) -> int: ...
    def vector(self, values: _Float32, /) -> int: ...
    def embed(self, table: Matrix, dst: int, scale: float = 1.0) -> None: ...
    def rmsnorm(self, src: int, weight: int, eps: float, dst: int, column: int = 0) -> None:
        """Into the columns of dst from `column` on."""

    def matmul(self, src: int, products: _Sequence[tuple[Matrix, int, int, bool]]) -> None:
        """products: (matrix, destination buffer, bias vector or -1, add to the destination)."""

    def attention(
        self,
        layer: int,
        q: int,
        k: int,
        v: int,
        dst: int,
        heads: int,
        inverse_frequencies: _Sequence[float],
        scale: float,
        window: int = 0,
        cap: float = 0.0,
    ) -> None:
        """No frequencies: no rotation. window: positions that a row sees, itself included; 0 = all.

        cap: scores become cap * tanh(score / cap); 0 = as they are.
        """

    def gated(
        self,
        src: int,
        gate_weight: Matrix,
        up_weight: Matrix,
        gate: int,
        up: int,
        dst: int,
        gelu: bool = False,
    ) -> None:
        """dst = act(src * gate_weight) * (src * up_weight); act is SiLU, or GELU (by tanh)."""

    def copy(self, src: int, dst: int) -> None: ...
    def norm_groups(self, buffer: int, weight: int, eps: float, size: int) -> None:
        """RMS norm of every group of `size` columns by itself, in place."""

    def add_scaled(self, src: int, dst: int, scale: float = 1.0, weight: int = -1, eps: float = 0.0) -> None:
        """dst += scale * src; with a weight, src is RMS-normalised first."""

    def cap(self, buffer: int, divisor: float, cap: float) -> None:
        """x / divisor, then cap * tanh(that / cap) unless cap is 0; in place."""

    def when_given(self, width: int) -> None:
        """What is described from now on runs only where rows come with vectors of this width; 0 = always."""

    def given(self, dst: int) -> None:
        """dst = the vectors that come with the rows."""

    def tap(self, src: int) -> None: ...
    def logits(self, src: int) -> None: ...
    def new_sequence(self) -> Sequence: ...
    def set_profiling(self, on: bool) -> None: ...
    @property
    def profile(self) -> _Mapping[str, float]:
        """Seconds per kind of operation since profiling was switched on."""

    def forward(self, requests: _Sequence[_Request], taps: _Sequence[int] = ()) -> list[_Output]:
        """One pass over the rows of all requests. taps: whose hidden states to return."""

def likeliest(logits: _Float32, count: int) -> tuple[list[int], list[float]]:
    """The largest logits and their chances (softmax), the likeliest first: (indices, chances).

    Empty where the largest is not finite.
    """

def likeliest_winners(
    logits: _Float32,
    token_ids: _Int32,
    count: int,
    *,
    trust: float,
    temperature: float,
    top_k: int,
    top_p: float,
    min_p: float,
    seed: int,
    stream: int,
    position: int,
) -> list[tuple[int, float]]:
    """The tokens most likely to be sampled by a target whose logits are like these: (token, chance).

    The target adds the noise of the position. Empty where the largest logit is not finite.
    """

def gumbel_noise(seed: int, stream: int, position: int, token_ids: _Int32) -> list[float]: ...
def nucleus(logits: _Float32, temperature: float, top_p: float) -> tuple[int, bool]:
    """The last token that top-p keeps, and whether the quick way was certain of it."""

def softmax_weights(distances: _Float64) -> list[int]: ...

_TokenIds = _Int32 | _Sequence[int]  # negative ones separate texts: they lead nowhere, and must not recur

class SuffixAutomaton:
    """All passages of a growing text, and how it went on after each. Append-only."""

    MAX_COUNTED: int
    """Occurrences are counted for so many passages per token, the longest first."""

    def __init__(self) -> None: ...
    def extend(self, token_ids: _TokenIds) -> None:
        """Append tokens to the text. TypeError for an array that is not int32[n]."""

    @property
    def num_tokens(self) -> int: ...
    @property
    def num_states(self) -> int: ...
    @property
    def longest_match(self) -> tuple[int, int]:
        """The longest passage that ends the text and also ended earlier: its state, and its length."""

    def ways(self, state: int, length: int, most: int) -> tuple[int, int, int, list[tuple[int, int, int]]]:
        """How the text went on after a passage: the `most` likeliest ways; of equal counts, the latest first.

        (tokens of the passage, number of ways, their occurrences, [(token, occurrences, state)]). A passage
        that stood only at the end of the text stands for its longest part that was followed by something.
        """

class SuffixReader:
    """Where the end of a text stands in another one: the longest passage of that which equals it."""

    def __init__(self, automaton: SuffixAutomaton) -> None: ...
    @property
    def state(self) -> int: ...
    @property
    def length(self) -> int: ...
    def read(self, token_ids: _TokenIds) -> None:
        """The text goes on by these tokens."""

class SuffixLookup:
    """A running text, looked up in itself and in others."""

    def __init__(
        self,
        *,
        others: _Sequence[SuffixAutomaton],
        min_match: int,
        branches: int,
        vocab_size: int,
        novelty: _Sequence[float],
    ) -> None:
        """min_match: shortest passage that counts. branches: most guesses under one node, at least 1.

        Tokens from vocab_size on are not guessed. novelty: in how many new ways, in occurrences, a match of
        0, 1, ... tokens goes on for each way it went on before; longer matches are as the last.
        """

    def guess(
        self, history: _TokenIds, budget: int, least_chance: float
    ) -> tuple[_Int32, _Int32 | None, _Float32] | None:
        """Take in what is new of `history`, and guess at most `budget` tokens after it, the likeliest first.

        None, or (token_ids, parents, confidence) as in `Draft`. least_chance: a guess less likely than this,
        with all above it, is left out. ValueError for a negative budget.
        """

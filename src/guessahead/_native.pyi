"""
guessahead's native engine: kernels, cache and passes. Described by guessahead.engines.native.
"""

from collections.abc import Sequence as _Sequence
from typing import Annotated

import numpy
import numpy.typing
from numpy.typing import NDArray


FORMATS: list[str]

PAGE: int = 64

def isa(wanted: str = '') -> str:
    """
    Name of the instruction set that runs; "" = GUESSAHEAD_ISA, else the best. ValueError where it cannot be used.
    """

def isas() -> list[str]:
    """Names of the instruction sets that can be used here, the best first."""

class Pool:
    """
    Worker threads, the same for all who ask for as many; the caller is one of them.
    """

    def __init__(self, threads: int) -> None: ...

    @property
    def size(self) -> int: ...

def read_bandwidth(pool: Pool) -> float:
    """Bytes per second read from memory by all workers."""

def peak(pool: Pool, isa: str = '', unit: str = 'int8') -> float:
    """Multiply-adds per second of all workers; unit: "int8" or "f32"."""

def packed_bytes(format: str, n: int, k: int) -> int:
    """Bytes that a matrix takes in an arena."""

class Arena:
    """Memory for matrices, handed out front to back: one stream per worker."""

    def __init__(self, num_bytes_per_stream: int, num_streams: int) -> None: ...

class Matrix:
    """A weight matrix of n outputs by k inputs, repacked into tiles."""

    @staticmethod
    def pack(pool: Pool, format: str, n: int, k: int, data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], order: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, arena: Arena | None = None) -> Matrix:
        """
        order: which row of the data becomes output i. arena: where it shall lie; default: by itself.
        """

    @property
    def n(self) -> int: ...

    @property
    def k(self) -> int: ...

    @property
    def num_bytes(self) -> int: ...

    @property
    def format(self) -> str: ...

    def dequantise(self) -> NDArray[numpy.float32]:
        """All values, float32[n, k]."""

    def matmul(self, pool: Pool, x: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], isa: str = '', int8: bool = True) -> NDArray[numpy.float32]:
        """x float32[m, k] -> float32[m, n]."""

    def time_matmul(self, pool: Pool, x: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], isa: str = '', int8: bool = True, repeats: int = 20, streamed: bool = True) -> list[float]:
        """
        Seconds per product; streamed: the weights come from memory, else from whatever cache holds them.
        """

class Sequence:
    """The cache of one running sequence."""

    @property
    def length(self) -> int: ...

    @property
    def num_bytes(self) -> int: ...

    def keep(self, arg: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], /) -> None: ...

    def rollback(self, arg: int, /) -> None: ...

    def fork(self) -> Sequence: ...

    def cached(self, layer: int) -> tuple[numpy.typing.NDArray[numpy.float32], numpy.typing.NDArray[numpy.float32]]:
        """Keys and values of one layer, float32[length, heads, head_dim] each."""

def check_integrity(sequences: _Sequence[Sequence]) -> None:
    """
    RuntimeError where pages, lengths and rows contradict each other, or where a page is held by others than
    these sequences: give all that there are of a model.
    """

class Chooser:
    """`choose` along one path; arguments from engines/native/choosing.py."""

    def __init__(self, *, temperature: float, top_k: int, top_p: float, min_p: float, repetition_penalty: float, frequency_penalty: float, presence_penalty: float, logit_bias: _Sequence[tuple[int, float]], eos_ids: _Sequence[int], min_tokens: int, seed: int, stream: int, prompt_length: int) -> None: ...

    def choose(self, logits: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], isa: str = '', mask: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None) -> int:
        """
        The token that follows history + pushed; logits: float32[vocab]. mask: uint32[words], packed:
        the tokens that are allowed; None = all.
        """

    def sync(self, history: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None:
        """
        The history is this one from now on, int32[n]; costs as much as it differs.
        """

    def push(self, token: int) -> None:
        """Append a token to the path."""

def nucleus(logits: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], temperature: float, top_p: float, isa: str = '') -> tuple[int, bool]: ...

def gumbel_noise(seed: int, stream: int, position: int, token_ids: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> list[float]: ...

def softmax_weights(distances: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], isa: str = '') -> list[int]: ...

def likeliest(logits: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], count: int) -> tuple[list[int], list[float]]:
    """
    The largest logits and their probabilities (softmax), the likeliest first: (indices, probabilities);
    empty where one is not finite.
    """

def likeliest_winners(logits: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], token_ids: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], count: int, *, trust: float, temperature: float, top_k: int, top_p: float, min_p: float, seed: int, stream: int, position: int) -> list[tuple[int, float]]:
    """
    The tokens most likely to be sampled by a target whose logits are like these, and which adds the
    noise of the position: (token, probability), the likeliest first; empty where a logit is not
    finite.
    """

class Product:
    """A matrix that a source is multiplied with, and where the result goes."""

    def __init__(self, matrix: Matrix, dst: int, *, bias: int = -1, add: bool = False) -> None:
        """dst: a buffer. bias: a vector, or -1. add: to what is there."""

class RowGroup:
    """A sequence's share of a pass."""

    def __init__(self, *, sequence: Sequence, tokens: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], parents: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, committed: int, chooser: Chooser | None = None, logits: str = 'none', given: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None = None, masks: Annotated[NDArray[numpy.uint32], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None = None) -> None:
        """
        tokens: int32[n], of which the first `committed` enter the cache. parents: int32[n], -1 = the last cached token; None = a chain. chooser: chooses from the last committed row on. logits: of no row (none), of those that were chosen for (path), or of all from the last committed one on, without choosing (all). given: float32[n, width], vectors that come with the tokens. masks: uint32[n - committed + 1, words], packed: the tokens that may be chosen, by row.
        """

class GroupResult:
    """What a pass yields for a RowGroup."""

    @property
    def chosen(self) -> numpy.typing.NDArray[numpy.int32]:
        """int32[n]: the token chosen after each row, -1 where none was."""

    @property
    def logits(self) -> dict[int, numpy.typing.NDArray[numpy.float32]] | None:
        """Row -> float32[vocabulary]."""

    @property
    def hidden(self) -> dict[int, numpy.typing.NDArray[numpy.float32]]:
        """Tap -> float32[n, width]."""

class Plan:
    """The operations of one pass over preallocated buffers."""

    def __init__(self, layers: int, kv_heads: int, head_dim: int, max_rows: int, context: int, pool: Pool, isa: str = '', half_cache: bool = False) -> None: ...

    @property
    def isa(self) -> str: ...

    def buffer(self, width: int, quantised: bool = False, compact: bool = False) -> int: ...

    def vector(self, arg: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], /) -> int: ...

    def embed(self, table: Matrix, dst: int, scale: float = 1.0) -> None: ...

    def rmsnorm(self, src: int, weight: int, eps: float, dst: int, column: int = 0) -> None: ...

    def matmul(self, src: int, products: _Sequence[Product]) -> None:
        """The products of one source, in one operation."""

    def attention(self, layer: int, q: int, k: int, v: int, dst: int, heads: int, inverse_frequencies: _Sequence[float], scale: float, window: int = 0, cap: float = 0.0) -> None:
        """
        No frequencies: no rotation. window: positions that a row sees, itself included; 0 = all. cap:
        scores become cap * tanh(score / cap); 0 = as they are.
        """

    def gated(self, src: int, gate_weight: Matrix, up_weight: Matrix, gate: int, up: int, dst: int, gelu: bool = False) -> None:
        """
        dst = act(src * gate_weight) * (src * up_weight); act is SiLU, or GELU (by tanh).
        """

    def copy(self, src: int, dst: int) -> None: ...

    def norm_groups(self, buffer: int, weight: int, eps: float, size: int) -> None:
        """RMS norm of every group of `size` columns by itself, in place."""

    def add_scaled(self, src: int, dst: int, scale: float = 1.0, weight: int = -1, eps: float = 0.0) -> None:
        """dst += scale * src; with a weight, src is RMS-normalised first."""

    def cap(self, buffer: int, divisor: float, cap: float) -> None:
        """x / divisor, then cap * tanh(that / cap) unless cap is 0; in place."""

    def when_given(self, width: int) -> None:
        """
        What is described from now on runs only where rows come with vectors of this width; 0 = always.
        """

    def given(self, dst: int) -> None:
        """dst = the vectors that come with the rows."""

    def tap(self, src: int) -> None: ...

    def logits(self, src: int) -> None: ...

    def new_sequence(self) -> Sequence: ...

    def set_profiling(self, on: bool) -> None: ...

    @property
    def profile(self) -> dict[str, float]:
        """Seconds per kind of operation since profiling was switched on."""

    def forward(self, groups: _Sequence[RowGroup], taps: _Sequence[int] = []) -> list[GroupResult]:
        """
        One pass over the rows of all groups. taps: whose hidden states to return.
        """

class SuffixWay:
    """One token that followed a passage."""

    @property
    def token(self) -> int: ...

    @property
    def count(self) -> int:
        """How often it followed."""

    @property
    def state(self) -> int:
        """Of the passage with this token at its end."""

class SuffixWays:
    """How a text went on after a passage."""

    @property
    def length(self) -> int:
        """Of the longest part of the passage that something followed."""

    @property
    def num_ways(self) -> int:
        """How many tokens followed it."""

    @property
    def occurrences(self) -> int:
        """How often they followed it, together."""

    @property
    def likeliest(self) -> list[SuffixWay]:
        """The likeliest first."""

class SuffixAutomaton:
    """All passages of a growing text, and how it went on after each."""

    def __init__(self) -> None: ...

    def extend(self, token_ids: object) -> None:
        """
        Append tokens, int32[n] or a list; a negative one, which must not recur, separates texts.
        """

    @property
    def num_tokens(self) -> int: ...

    @property
    def num_states(self) -> int: ...

    @property
    def longest_match(self) -> tuple[int, int]:
        """
        The longest passage that ends the text and also ended earlier: its state and length.
        """

    def ways(self, state: int, length: int, most: int) -> SuffixWays:
        """
        How the text went on after a passage of `length` tokens; lists the `most` likeliest ways.
        """

    MAX_COUNTED: int = 24

class SuffixReader:
    """Where the end of a text stands in another one."""

    def __init__(self, automaton: SuffixAutomaton) -> None: ...

    @property
    def state(self) -> int: ...

    @property
    def length(self) -> int: ...

    def read(self, token_ids: object) -> None:
        """Go on by these tokens, int32[n] or a list."""

class SuffixLookup:
    """A running text, looked up in itself and in others."""

    def __init__(self, *, others: _Sequence[SuffixAutomaton], min_match: int, branches: int, vocab_size: int, novelty: _Sequence[float]) -> None: ...

    def guess(self, history: numpy.typing.NDArray[numpy.int32], budget: int, least_probability: float) -> tuple[numpy.typing.NDArray[numpy.int32], numpy.typing.NDArray[numpy.int32] | None, numpy.typing.NDArray[numpy.float32]] | None:
        """
        Takes in what is new of `history`, int32[n]; at most `budget` guesses after it as (token_ids, parents or None, probabilities), or None.
        """

class HeadAsk:
    """What a draft of a head may contain."""

    def __init__(self, *, budget: int, levels: int, branches: int, width: int, least_sibling: float, ends: _Sequence[int]) -> None:
        """
        budget: most guesses. levels: most guesses one after the other. branches: children of a guess.
        width: guesses of a level that get children. least_sibling: a sibling less likely is left out.
        ends: tokens of the target that no guess follows.
        """

    def stop(self, least_path_probability: _Sequence[float], calibration: _Sequence[_Sequence[float]]) -> None:
        """Sets the rule that ends the draft (see StopRule)."""

    def sample(self, *, trust: float, temperature: float, top_k: int, top_p: float, min_p: float, seed: int, stream: int, position: int) -> None:
        """
        Sets how the target samples (see likeliest_winners). position: of the first guess.
        """

class HeadDraft:
    """The guesses of a head; a parent precedes its children."""

    @property
    def tokens(self) -> numpy.typing.NDArray[numpy.int32]: ...

    @property
    def parents(self) -> numpy.typing.NDArray[numpy.int32]:
        """-1 = the last committed token."""

    @property
    def probabilities(self) -> numpy.typing.NDArray[numpy.float32]: ...

    @property
    def is_chain(self) -> bool:
        """Whether each guess follows the one before."""

def draft_of_head(plan: Plan, sequence: Sequence, next_ids: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], fused: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], token_ids: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], ask: HeadAsk) -> HeadDraft:
    """
    Reads rows (the target's hidden states at t, float32[n, width], and the token at t + 1), and guesses
    after the last of them. token_ids: the target's id of each id of the head. Afterwards the sequence
    holds the rows that were read.
    """

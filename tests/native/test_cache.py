"""The cache through random forks, passes, commits, rollbacks and closes: whole, with the right contents."""

from __future__ import annotations

import numpy as np
import pytest

from guessahead import _native
from guessahead.engines.native import NativeEngine, NativeSequence
from guessahead.protocols import Rows
from guessahead.types import Int32
from tests.native.rows import cache_of, load
from tests.support.tiny import tiny_gguf

VOCAB, PAGE = 256, _native.PAGE
MOST_TOKENS = 3 * PAGE


class World:
    """All sequences of one engine, and what each must hold."""

    def __init__(self, engine: NativeEngine, seed: int) -> None:
        self.engine, self.rng = engine, np.random.default_rng(seed)
        self.sequences: list[tuple[NativeSequence, list[int]]] = []
        self.open_new()

    def open_new(self) -> None:
        sequence = self.engine.new_sequence()
        assert isinstance(sequence, NativeSequence)
        self.sequences.append((sequence, []))

    def random(self, bound: int) -> int:
        return int(self.rng.integers(bound))

    def parents_of(self, num_committed: int, num_guesses: int) -> Int32:
        """A chain of committed rows, then a random tree below the last of them."""
        parents = list(range(-1, num_committed - 1))
        for row in range(num_committed, num_committed + num_guesses):
            chain = row - 1 if self.rng.random() < 0.6 else num_committed - 1
            parents.append(max(chain, int(self.rng.integers(num_committed - 1, row))))
        return np.array(parents, np.int32)

    def run(self, sequence: NativeSequence, held: list[int]) -> None:
        """A pass, after which a random path of its guesses, or none, is kept, or left to the next pass."""
        num_committed, num_guesses = 1 + self.random(20), self.random(9)
        if len(held) + num_committed + num_guesses > MOST_TOKENS:
            return
        tokens = self.rng.integers(VOCAB, size=num_committed + num_guesses).astype(np.int32)
        parents = self.parents_of(num_committed, num_guesses)
        self.engine.forward([Rows(sequence, tokens, parents, choose_from=num_committed - 1)])
        held += tokens[:num_committed].tolist()
        self.check()
        if self.rng.random() < 0.3:
            return
        path: list[int] = []
        row = num_committed - 1
        while (children := np.flatnonzero(parents == row)).size and self.rng.random() < 0.8:
            row = int(self.rng.choice(children))
            path.append(row)
        sequence.keep(np.array(path, np.int32))
        held += tokens[path].tolist()

    def step(self) -> None:
        index = self.random(len(self.sequences))
        sequence, held = self.sequences[index]
        what = self.rng.random()
        if what < 0.6:
            self.run(sequence, held)
        elif what < 0.75:
            length = self.random(len(held) + 1)
            sequence.rollback(length)
            del held[length:]
        elif what < 0.9 and len(self.sequences) < 6:
            copy = sequence.fork()
            assert isinstance(copy, NativeSequence)
            self.sequences.append((copy, list(held)))
        elif len(self.sequences) > 1:
            sequence.close()
            del self.sequences[index]
        else:
            self.open_new()

    def check(self) -> None:
        _native.check_integrity([sequence.native for sequence, _ in self.sequences])
        assert [sequence.length for sequence, _ in self.sequences] == [
            len(held) for _, held in self.sequences
        ]


@pytest.fixture(scope="module", params=["f32", "f16"])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> NativeEngine:
    model = tiny_gguf(tmp_path_factory.mktemp("cache") / "m.gguf", format="Q8_0", seed=3)
    return load(model, threads=1, cache=request.param)


@pytest.mark.parametrize("seed", range(3))
def test_random_walks_leave_the_cache_whole(engine: NativeEngine, seed: int) -> None:
    world = World(engine, seed)
    most_shared = 0
    for _ in range(150):
        world.step()
        world.check()
        pages = sum(-(-len(held) // PAGE) for _, held in world.sequences)
        most_shared = max(most_shared, pages)
    assert most_shared > 6, "several sequences of several pages"
    for sequence, held in world.sequences:
        fresh = engine.new_sequence()
        if held:
            engine.forward([Rows(fresh, np.array(held, np.int32))])
        assert cache_of(engine, sequence) == cache_of(engine, fresh)


def test_a_page_that_another_sequence_holds_is_noticed(engine: NativeEngine) -> None:
    sequence = engine.new_sequence()
    engine.forward([Rows(sequence, np.arange(70, dtype=np.int32))])
    copy = sequence.fork()
    assert isinstance(sequence, NativeSequence)
    assert isinstance(copy, NativeSequence)
    _native.check_integrity([sequence.native, copy.native])
    for some in ([sequence], [copy], [copy, copy, sequence]):
        with pytest.raises(RuntimeError, match="count of owners"):
            _native.check_integrity([each.native for each in some])
    copy.close()
    _native.check_integrity([sequence.native])

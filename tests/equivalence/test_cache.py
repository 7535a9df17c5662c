"""After each step, whoever guessed, the target's cache is plain decoding's at that length, bit by bit.

So nothing of a guess remains: not of a rejected one, not of a branch, not of a copy at lower precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from guessahead.controller.pass_costs import LearnedPassCosts
from guessahead.drafters.base import Drafter
from guessahead.engines.native import NativeSequence
from guessahead.protocols import Engine, EngineInfo, PassOutput, Rows, SequenceState
from guessahead.runners.solo import SpeculativeDecoder
from guessahead.types import Float32, Request
from tests.equivalence.grid import DRAFTERS, make_drafter, requests
from tests.equivalence.test_controlled import Whimsical
from tests.equivalence.worlds import World, shared_world

SETTINGS = ("greedy", "penalties-sampled")
Cache = list[Float32]  # keys and values of each layer: [position][head][head_dim]


class Watched:
    """An engine that shows the sequence it handed out last."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.sequence: SequenceState | None = None

    @property
    def info(self) -> EngineInfo:
        return self._engine.info

    def new_sequence(self) -> SequenceState:
        self.sequence = self._engine.new_sequence()
        return self.sequence

    def forward(self, requests: list[Rows]) -> list[PassOutput]:
        return self._engine.forward(requests)

    def cache(self) -> Cache:
        assert isinstance(self.sequence, NativeSequence)
        native = self.sequence.native
        return [part for layer in range(self.info.num_layers) for part in native.cached(layer)]


def caches(world: World, drafter: Drafter, request: Request) -> tuple[list[Cache], tuple[int, ...]]:
    """The cache after each step, and the tokens."""
    engine = Watched(world.engine)
    costs = LearnedPassCosts(world.engine.info.max_rows)
    for rows in range(1, 9):
        costs.learn(rows, 1.0 + 0.01 * rows)
    decoder = SpeculativeDecoder(engine, drafter, world.tokenizer, costs=costs, clock=Whimsical(3))
    found, tokens = [], []
    for chunk in decoder.stream(request):
        found.append(engine.cache())
        tokens += chunk.token_ids
    return found, tuple(tokens)


@pytest.fixture(scope="module", params=["llama-F32", "qwen2-Q4_1", "llama-text"])
def world(request: pytest.FixtureRequest) -> World:
    return replace(shared_world(request.param), max_tokens=24, seeds=(0,))


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_the_cache_is_plain_decodings(world: World, drafter: str, setting: str) -> None:
    """gamma 5, and as the controller likes with a clock that has no sense."""
    for request in requests(world, setting):
        plain, tokens = caches(world, make_drafter("none", world), replace(request, gamma=0))
        by_length = {len(cache[0]): cache for cache in plain}
        text = [*request.prompt_ids.tolist(), *tokens]
        for gamma in (5, "auto"):
            made = make_drafter(drafter, world, text)
            found, ours = caches(world, made, replace(request, gamma=gamma))
            assert ours == tokens
            for cache in found:
                assert_equal(cache, by_length[len(cache[0])])


def assert_equal(cache: Cache, expected: Cache) -> None:
    assert [part.tobytes() for part in cache] == [part.tobytes() for part in expected]


def test_a_cache_that_keeps_a_wrong_row_is_caught(world: World) -> None:
    """The check sees one changed bit, so equality above says something."""
    request = next(iter(requests(world, "greedy")))
    plain, _ = caches(world, make_drafter("none", world), replace(request, gamma=0))
    changed: Sequence[Any] = [np.array(part) for part in plain[-1]]
    changed[1].view(np.uint32).flat[-1] ^= 1
    with pytest.raises(AssertionError):
        assert_equal(list(changed), plain[-1])

"""With the controller on, whatever it decides: the output is plain decoding's.

Its decisions follow measured times, so here the clock is what it can be at its worst: every reading is later
than the one before by a random amount. All drafters, settings and seeds; `make proof` has ten times as many.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest

from guessahead.controller.members import Member
from guessahead.controller.pass_costs import LearnedPassCosts
from guessahead.drafters.base import Drafter
from guessahead.runners.solo import SpeculativeDecoder
from guessahead.types import Chunk, Generation, Request
from tests.conftest import Compared
from tests.equivalence.grid import (
    DRAFTERS,
    SETTINGS,
    check,
    check_equal,
    make_drafter,
    num_compared,
    requests,
    run,
)
from tests.equivalence.worlds import WORLDS, World, shared_world, tiny_world


class Whimsical:
    """A clock without sense, but repeatable."""

    def __init__(self, seed: int) -> None:
        self._dice, self._now = random.Random(seed), 0.0

    def __call__(self) -> float:
        self._now += self._dice.expovariate(1.0) ** 3
        return self._now


def controlled(world: World, drafter: Drafter, request: Request, seed: int) -> tuple[list[Chunk], Generation]:
    costs = LearnedPassCosts(world.engine.info.max_rows)
    for rows in range(1, 9):
        costs.learn(rows, 1.0 + 0.01 * rows)
    decoder = SpeculativeDecoder(world.engine, drafter, world.tokenizer, costs=costs, clock=Whimsical(seed))
    steps, chunks = decoder.stream(replace(request, gamma="auto")), []
    while True:
        try:
            chunks.append(next(steps))
        except StopIteration as end:
            return chunks, end.value


def check_controlled(world: World, name: str, setting: str, whims: range) -> Iterator[Generation]:
    for request in requests(world, setting):
        _, plain = run(world, make_drafter("none", world), request)
        text = [*request.prompt_ids.tolist(), *plain.token_ids]
        for seed in whims:
            chunks, generation = controlled(world, make_drafter(name, world, text), request, seed)
            check_equal(plain, chunks, generation)
            yield generation


@pytest.fixture(scope="module", params=["tiny", "llama-Q4_1", "qwen2-F32"])
def few_worlds(request: pytest.FixtureRequest) -> World:
    return shared_world(request.param)


@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_output_is_plain(few_worlds: World, drafter: str, setting: str) -> None:
    for _ in check_controlled(few_worlds, drafter, setting, range(2)):
        pass


def test_the_controller_drafts_much_and_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise equality would say little."""
    # The first guess of a tree-oracle is wrong, so that it would never earn a second one.
    monkeypatch.setattr(Member, "trusted", lambda _, limit: limit)
    sizes: Counter[int] = Counter()
    world = tiny_world()
    for name in ("oracle", "tree-oracle", "suffix", "portfolio", "draft-model", "self-q4"):
        generations = list(check_controlled(world, name, "greedy", range(8)))
        drafted = sum(generation.stats.num_drafted for generation in generations)
        accepted = sum(generation.stats.num_accepted for generation in generations)
        assert 0 < accepted < drafted, name
        for generation in generations:
            for size, count in enumerate(generation.stats.accepted_lengths):
                sizes[size] += count
    assert all(sizes[size] > 5 for size in range(5))


@pytest.mark.proof
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_tenfold(world: World, drafter: str, setting: str, compared: Compared) -> None:
    """Ten times the seeds of the grid, at two draft lengths and as two controllers like: a million tokens.

    That many with all drafters, settings and worlds together; `test_tenfold_is_large` counts.
    """
    many = tenfold(world)
    found = check(many, drafter, setting)
    found += check_controlled(many, drafter, setting, range(2))
    num_tokens = sum(len(generation.token_ids) for generation in found)
    assert num_tokens == 2 * num_compared(many, drafter, setting)
    compared(num_tokens)


def tenfold(world: World) -> World:
    return replace(world, seeds=range(10 * len(world.seeds)), gammas=(3, 8))


@pytest.mark.proof
def test_tenfold_is_large() -> None:
    worlds = [tenfold(shared_world(name)) for name in WORLDS]
    num_tokens = sum(2 * num_compared(world, "none", setting) for world in worlds for setting in SETTINGS)
    assert num_tokens * len(DRAFTERS) >= 1_000_000

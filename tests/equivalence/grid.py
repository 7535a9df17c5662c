"""The grid's axes, and the one comparison that all of it makes, in each of the worlds (worlds.py)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from guessahead.drafters import registry
from guessahead.drafters.base import Drafter, DrafterResources
from guessahead.types import Chunk, Generation, Request, SamplingParams
from tests.equivalence.worlds import World
from tests.support.fake_drafters import HostileDrafter, OracleDrafter, TreeHostileDrafter, TreeOracleDrafter
from tests.support.fake_head import FakeHead
from tests.support.fakes import decode_stream

SETTINGS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "sampled": {"temperature": 1.0},
    "sampled-filtered": {"temperature": 0.7, "top_k": 9, "top_p": 0.9},
    "sampled-hot": {"temperature": 1.4, "top_p": 0.95, "min_p": 0.02},
    "penalties": {
        "repetition_penalty": 1.3,
        "frequency_penalty": 0.5,
        "presence_penalty": 0.4,
        "logit_bias": {4: 1.5, 6: float("-inf"), 3: 2.0},
        "min_tokens": 7,
    },
    "penalties-sampled": {
        "temperature": 0.9,
        "min_p": 0.05,
        "repetition_penalty": 1.2,
        "frequency_penalty": 0.7,
        "presence_penalty": -0.3,
        "logit_bias": {5: -2.0, 8: 1.0},
        "min_tokens": 5,
    },
    "grammar": {},
    "grammar-sampled": {"temperature": 1.2, "top_p": 0.95, "presence_penalty": 0.3, "min_tokens": 4},
}
# The settings in which the world's grammar holds.
CONSTRAINED = ("grammar", "grammar-sampled")

OUR_DRAFTERS = ("oracle", "hostile", "tree-oracle", "tree-hostile")
DRAFTERS = (*registry.names(), *OUR_DRAFTERS)


def make_drafter(name: str, world: World, text: Sequence[int] = ()) -> Drafter:
    """text: prompt and plain output, for the drafters that know it."""
    if name == "oracle":
        return OracleDrafter(text, [2, 0, 5, 1, 8, 3], world.vocab_size)
    if name == "tree-oracle":
        return TreeOracleDrafter(text, [2, 0, 1, 8], world.vocab_size)
    if name == "hostile":
        return HostileDrafter(text, world.vocab_size)
    if name == "tree-hostile":
        return TreeHostileDrafter(text, world.vocab_size)
    needs_second = registry.find(name).takes_draft_engine
    second, head = world.draft_engine, world.head or fake_head(world.engine)
    setup = DrafterResources(
        world.engine, second if needs_second else None, world.tokenizer, lambda _: second, lambda _: head
    )
    setup = replace(setup, constrained=True)
    return registry.make(
        name, {}, replace(setup, draft_tokenizer=world.draft_tokenizer if needs_second else None)
    )


@lru_cache(maxsize=4)
def fake_head(engine: Any) -> FakeHead:
    """One for each engine: what it computed once, it knows."""
    return FakeHead(engine)


def run(world: World, drafter: Drafter, request: Request) -> tuple[list[Chunk], Generation]:
    return decode_stream(world.engine, drafter, world.tokenizer, request)


def requests(world: World, setting: str, gamma: int = 0) -> Iterator[Request]:
    """One per seed; odd seeds with stop strings and log-probabilities."""
    for seed in world.seeds:
        yield Request(
            prompt_ids=np.array(world.prompts[seed % len(world.prompts)], np.int32),
            params=SamplingParams(**SETTINGS[setting] | {"seed": seed}),
            max_tokens=world.max_tokens,
            gamma=gamma,
            stops=world.stops if seed % 2 else (),
            logprobs=3 if seed % 2 else None,
            grammar=world.grammar if setting in CONSTRAINED else None,
        )


def check_equal(plain: Generation, chunks: list[Chunk], generation: Generation) -> None:
    """What was generated is what plain decoding generates, and the stream adds up to it."""
    assert generation.token_ids == plain.token_ids
    assert generation.text == plain.text
    assert generation.finish_reason == plain.finish_reason
    assert generation.logprobs == plain.logprobs
    assert generation.seed == plain.seed
    assert "".join(chunk.text for chunk in chunks) == plain.text
    assert tuple(token for chunk in chunks for token in chunk.token_ids) == plain.token_ids
    assert all(len(chunk.origins) == len(chunk.token_ids) for chunk in chunks)


def plain_decoding(world: World, setting: str, request: Request) -> Generation:
    """The request's tokens one by one."""
    key = (setting, request.params.seed)
    if key not in world.plain:
        _, world.plain[key] = run(world, make_drafter("none", world), request)
    return world.plain[key]


def cells(world: World, name: str, setting: str, one_in: int = 1) -> Iterator[tuple[Request, int]]:
    """Every request with every draft length; or, of so many neighbours, the one whose turn it is.

    Turns go round over seeds, draft lengths, drafters and settings. So a part of the cells still has each
    seed, and each draft length, with each drafter in each setting.
    """
    turn = DRAFTERS.index(name) + list(SETTINGS).index(setting)
    for row, request in enumerate(requests(world, setting)):
        for column, gamma in enumerate(world.gammas):
            if (row + column + turn) % one_in == 0:
                yield request, gamma


def num_compared(world: World, name: str, setting: str, one_in: int = 1) -> int:
    """How many tokens `check` compares."""
    return sum(
        len(plain_decoding(world, setting, request).token_ids)
        for request, _ in cells(world, name, setting, one_in)
    )


def check(world: World, name: str, setting: str, one_in: int = 1) -> list[Generation]:
    """One drafter under one setting, for these cells. Returns what was generated."""
    generations = []
    for request, gamma in cells(world, name, setting, one_in):
        plain = plain_decoding(world, setting, request)
        drafter = make_drafter(name, world, [*request.prompt_ids.tolist(), *plain.token_ids])
        chunks, generation = run(world, drafter, replace(request, gamma=gamma))
        check_equal(plain, chunks, generation)
        generations.append(generation)
    return generations

"""Steps of many requests in one pass: each text is the one that its request gets alone."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np
import pytest

from guessahead.controller.base import FixedGamma
from guessahead.core.state import GenerationState
from guessahead.core.step import CHOOSE, Step
from guessahead.drafters.base import Drafter
from guessahead.errors import GuessaheadError
from guessahead.grammar import constraint_for
from guessahead.protocols import PassOutput, Rows
from guessahead.runners.base import turn
from guessahead.text.stream import StreamDecoder
from guessahead.types import Generation
from tests.equivalence.grid import CONSTRAINED, DRAFTERS, SETTINGS, make_drafter, plain_decoding, requests
from tests.equivalence.worlds import World

MOST_AT_ONCE = 7  # of 9 rows each at most, so that one pass takes them all
NUM_REQUESTS = 64


@dataclass
class Running:
    """A request that is being served, and what it gets alone."""

    step: Step
    state: GenerationState
    drafter: Drafter
    plain: Generation
    sequence: Any


def begin(world: World, seed: int) -> Running:
    """A random request: setting, seed, length, drafter and draft length."""
    rng = random.Random(seed)
    setting = rng.choice(list(SETTINGS))
    gamma = rng.choice(list(world.gammas))
    alone = rng.choice(list(requests(world, setting, gamma)))
    plain = plain_decoding(world, setting, alone)
    text = [*alone.prompt_ids.tolist(), *plain.token_ids]
    drafter = make_drafter(rng.choice(DRAFTERS), world, text)
    info, grammar = world.engine.info, alone.grammar if setting in CONSTRAINED else None
    constraint = (
        None
        if grammar is None
        else constraint_for(grammar, world.tokenizer, info.vocab_size, len(alone.prompt_ids))
    )
    decoder = StreamDecoder(world.tokenizer, alone.stops, alone.params.min_tokens)
    state = GenerationState(
        alone, info, world.tokenizer.eos_ids, decoder, drafter.name, drafter.note, constraint
    )
    sequence = world.engine.new_sequence()
    drafter.begin(state.context())
    step = Step(state, sequence, drafter, FixedGamma(drafter, gamma, None), CHOOSE)
    return Running(step, state, drafter, plain, sequence)


def serve(world: World, cancelled: float) -> int:
    """Serve random requests, of which some are cancelled; returns the number of tokens that were compared."""
    rng = random.Random(7)
    waiting, running = list(range(NUM_REQUESTS)), list[Running]()
    num_compared = num_together = 0
    while waiting or running:
        while waiting and len(running) < MOST_AT_ONCE and (not running or rng.random() < 0.6):
            running.append(begin(world, waiting.pop()))
        turn(world.engine, [each.step for each in running], perf_counter)
        num_together = max(num_together, len(running))
        left = [each for each in running if each.state.finish_reason or rng.random() < cancelled]
        running = [each for each in running if each not in left]
        for each in left:
            each.sequence.close()
            each.drafter.end()
            if each.state.finish_reason is not None:
                num_compared += compare(each.state.generation(), each.plain)
    assert num_together == MOST_AT_ONCE
    return num_compared


def compare(generation: Generation, plain: Generation) -> int:
    assert generation.token_ids == plain.token_ids
    assert generation.text == plain.text
    assert generation.finish_reason == plain.finish_reason
    assert generation.logprobs == plain.logprobs
    return len(generation.token_ids)


def test_requests_that_join_and_leave_at_random(world: World) -> None:
    assert serve(world, cancelled=0.01) > 8 * NUM_REQUESTS


def test_a_wrong_token_beside_others_is_caught(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault that only passes of several requests have: the last one's tokens are the next ones."""
    forward = world.engine.forward

    def faulty(rows: list[Rows]) -> list[PassOutput]:
        outputs: list[PassOutput] = forward(rows)
        if len(rows) > 1:
            chosen = outputs[-1].chosen
            outputs[-1] = replace(outputs[-1], chosen=np.where(chosen > 0, chosen - 1, chosen))
        return outputs

    monkeypatch.setattr(world.engine, "forward", faulty)
    with pytest.raises((AssertionError, GuessaheadError)):
        serve(world, cancelled=0.0)

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from guessahead.drafters import registry
from guessahead.drafters.base import Drafter, DrafterResources
from guessahead.errors import PromptError, StateError
from guessahead.runners.solo import SpeculativeDecoder
from guessahead.types import Ask, ChoiceContext, Draft
from tests.support.fake_drafters import ConstantDrafter, OracleDrafter, TreeOracleDrafter
from tests.support.fake_text import letters
from tests.support.fakes import ScriptEngine, TinyEngine, decode, decode_stream, plain, request

VOCAB = 24
LETTERS = letters(VOCAB)
SCRIPT = [0, *range(1, 21)]


def scripted(num_right: list[int], kind: Any = OracleDrafter, **asked: Any) -> Any:
    engine = ScriptEngine(SCRIPT, VOCAB)
    return decode_stream(engine, kind(SCRIPT, num_right, VOCAB), LETTERS, request([0], trace=True, **asked))


def test_the_first_token_waits_for_no_draft() -> None:
    engine = ScriptEngine(SCRIPT, VOCAB)
    order: list[str] = []

    class Watched(OracleDrafter):
        def propose(self, ask: Ask) -> Draft:
            order.append("propose")
            return super().propose(ask)

    forward = engine.forward
    engine.forward = lambda requests: (order.append("forward"), forward(requests))[1]  # type: ignore[method-assign]
    decode(engine, Watched(SCRIPT, [3], VOCAB), LETTERS, request([0], 9))
    assert order[:4] == ["forward", "propose", "forward", "propose"]


def test_chunks_say_who_guessed_each_token() -> None:
    chunks, _ = scripted([2], max_tokens=8, gamma=3)
    assert [chunk.origins for chunk in chunks] == [
        ("target",),
        ("oracle", "oracle", "target"),
        ("oracle", "oracle", "target"),
        ("target",),
    ]
    chunks, _ = scripted([2], TreeOracleDrafter, max_tokens=9, gamma=6)
    assert chunks[1].origins == ("right", "right", "target"), (
        "origins within a draft win over the drafter's name"
    )


def test_the_trace_tells_every_step() -> None:
    chunks, generation = scripted([2, 5, 0], max_tokens=9, gamma=3)
    trace = json.loads(json.dumps(generation.trace))
    assert sorted(trace) == [
        "acceptance", "drafter", "finish_reason", "gamma", "model", "prompt_token_ids", "seed", "steps"
    ]  # fmt: skip
    assert trace["prompt_token_ids"] == [0]
    assert [step["kind"] for step in trace["steps"]] == ["plain", "correction", "bonus", "plain"]
    second = trace["steps"][1]
    seconds = second.pop("seconds")
    assert second == {
        "draft": {"token_ids": [2, 3, 5], "parents": [-1, 0, 1], "confidence": None, "origins": None},
        "rows": [1, 2, 3, 5],
        "num_committed_rows": 1,
        "chosen": [2, 3, 4, -1],
        "path": [0, 1],
        "token_ids": [2, 3, 4],
        "origins": ["oracle", "oracle", "target"],
        "kind": "correction",
    }
    assert sorted(seconds) == ["forward", "propose", "rest"]
    assert [t for step in trace["steps"] for t in step["token_ids"]] == list(generation.token_ids)
    assert len(chunks) == len(trace["steps"])


def test_a_block_that_the_text_ends_in_is_cut() -> None:
    _, generation = scripted([9], max_tokens=12, gamma=8, stops=("D",))
    last = generation.trace["steps"][-1]
    assert (last["kind"], last["path"], last["token_ids"]) == ("cut", [0, 1], [2, 3])
    stats = generation.stats
    assert (stats.num_tokens, stats.num_accepted, stats.num_tested, stats.alpha) == (3, 2, 2, 1.0)
    assert stats.accepted_lengths == (0, 0, 1)


def test_without_trace_and_logprobs_there_is_neither() -> None:
    generation = plain(TinyEngine(), LETTERS, request([1]))
    assert generation.trace is None
    assert generation.logprobs is None


def test_statistics_of_a_known_run() -> None:
    _, generation = scripted([2], max_tokens=8, gamma=3)
    stats = generation.stats
    assert (stats.num_prompt_tokens, stats.num_tokens, stats.num_passes) == (1, 8, 3)
    assert (stats.num_drafted, stats.num_tested, stats.num_accepted) == (6, 6, 4)
    assert stats.tau == 7 / 3
    assert (stats.drafter, stats.gamma) == ("oracle", 3)


def test_time_is_charged_to_whoever_spent_it() -> None:
    engine = ScriptEngine(SCRIPT, VOCAB)

    class Slow(OracleDrafter):
        def propose(self, ask: Ask) -> Draft:
            time.sleep(0.02)
            return super().propose(ask)

    forward = engine.forward
    engine.forward = lambda requests: (time.sleep(0.005), forward(requests))[1]  # type: ignore[method-assign]
    steps_drafter = Slow(SCRIPT, [0], VOCAB)
    steps = SpeculativeDecoder(engine, steps_drafter, LETTERS).stream(request([0], 5))  # type: ignore[arg-type]
    while True:
        try:
            next(steps)
        except StopIteration as end:
            stats = end.value.stats
            break
        time.sleep(0.05)  # the reader's own time
    assert stats.propose_seconds >= 0.06
    assert 0.02 <= stats.forward_seconds < stats.propose_seconds
    assert stats.rest_seconds < 0.05
    assert 0.005 <= stats.prompt_seconds < 0.05


def test_budget_respects_the_engines_rows() -> None:
    script = [0] * 9 + list(range(1, 13))
    engine = ScriptEngine(script, VOCAB, max_rows=4)
    drafter = OracleDrafter(script, [9], VOCAB)
    generation = decode(engine, drafter, LETTERS, request([0] * 9, 12, gamma=8))
    assert max(drafter.budgets) == 3
    assert generation.stats.num_prompt_passes == 3
    assert generation.token_ids == tuple(range(1, 13))


def test_a_drafter_that_exceeds_its_budget_is_stopped() -> None:
    class Greedy(ConstantDrafter):
        def propose(self, ask: Ask) -> Draft:
            return super().propose(replace(ask, budget=ask.budget + 1))

    with pytest.raises(StateError, match="'constant' proposed 5 tokens; 4 were allowed"):
        decode(TinyEngine(), Greedy(1), LETTERS, request([1], 10, gamma=4))


def test_a_drafter_may_propose_nothing_now_and_then() -> None:
    class Moody(OracleDrafter):
        def propose(self, ask: Ask) -> Draft:
            return super().propose(replace(ask, budget=ask.budget if len(ask.context.history) % 2 else 0))

    engine = ScriptEngine(SCRIPT, VOCAB)
    generation = decode(engine, Moody(SCRIPT, [4], VOCAB), LETTERS, request([0], 15))
    assert generation.token_ids == tuple(range(1, 16))


def test_history_handed_out_is_read_only_and_stays_true() -> None:
    seen: list[ChoiceContext] = []

    class Collector(ConstantDrafter):
        def propose(self, ask: Ask) -> Draft:
            seen.append(ask.context)
            with pytest.raises(ValueError, match="read-only"):
                ask.context.history[0] = 9
            return super().propose(ask)

    generation = decode(TinyEngine(), Collector(1), LETTERS, request([5, 6], 12))
    whole = [5, 6, *generation.token_ids]
    assert all(context.history.tolist() == whole[: len(context.history)] for context in seen)
    assert {context.prompt_length for context in seen} == {2}


def test_prompts_that_cannot_work_are_refused_at_once() -> None:
    engine = TinyEngine(context_length=4)
    drafter = registry.make("none", {}, DrafterResources(engine))  # type: ignore[arg-type]
    decoder = SpeculativeDecoder(engine, drafter, LETTERS)  # type: ignore[arg-type]
    with pytest.raises(PromptError, match="empty"):
        decoder.stream(request([]))
    with pytest.raises(PromptError, match="4 tokens and leaves no room in a context of 4"):
        decoder.stream(request([1, 2, 3, 4]))


def test_the_seed_is_drawn_when_none_is_given() -> None:
    asked = request([1, 2], 3, temperature=1.0, seed=None)
    seeds = {plain(TinyEngine(), LETTERS, asked).seed for _ in range(8)}
    assert len(seeds) == 8
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_an_error_of_the_cache_still_ends_the_drafter() -> None:
    class Fragile(TinyEngine):
        def new_sequence(self) -> Any:
            sequence = super().new_sequence()

            def close() -> None:
                raise RuntimeError("close failed")

            sequence.close = close  # type: ignore[method-assign]
            return sequence

    engine, drafter = Fragile(), OracleDrafter([0] * 9, [0], VOCAB)
    drafter.propose = lambda ask: Draft(np.empty(0, np.int32))  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="close failed"):
        decode(engine, drafter, LETTERS, request([1], 3))
    assert (drafter.num_begun, drafter.num_ended) == (1, 1)


def test_drafters_begin_and_end_once() -> None:
    engine = ScriptEngine(SCRIPT, VOCAB)
    drafter = OracleDrafter(SCRIPT, [2], VOCAB)
    decode(engine, drafter, LETTERS, request([0], 9))
    assert (drafter.num_begun, drafter.num_ended) == (1, 1)
    assert isinstance(drafter, Drafter)

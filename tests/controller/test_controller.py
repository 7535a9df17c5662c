"""The controller in the replay engine: virtual time, recorded text, known costs."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from guessahead.controller.pass_costs import LearnedPassCosts
from guessahead.engines.replay import Recording, recordings
from guessahead.types import Gamma, Int32
from tests.support.replaying import AVX2, AVX512, FLAT, DraftModelCosts, Hostile, HostileSlow, replay, speed

RECORDINGS = recordings()
RANDOM = np.random.default_rng(0)


def noise(count: int, seed: int = 0) -> Int32:
    """Text that nobody can guess: no token twice."""
    return np.random.default_rng(seed).permutation(40_000)[:count].astype(np.int32)


def recording(token_ids: Int32, prompt: int = 8) -> Recording:
    return Recording("made", "made", token_ids[:prompt], token_ids[prompt:])


@pytest.mark.parametrize("v", [AVX512, AVX2], ids=["avx512", "avx2"])
def test_instant_but_always_wrong(v: Any) -> None:
    speeds = [speed(replay(each, Hostile, "auto", v=v).stats) for each in RECORDINGS]
    assert min(speeds) >= 0.97


def test_slow_and_always_wrong() -> None:
    """Two pass-times a question; answers of at least 128 tokens."""
    long = [each for each in RECORDINGS if len(each.token_ids) >= 128]
    assert len(long) > 10
    assert min(speed(replay(each, HostileSlow, "auto").stats) for each in long) >= 0.95


@pytest.mark.parametrize("v", [AVX512, AVX2], ids=["avx512", "avx2"])
def test_never_slower_by_default(v: Any) -> None:
    for each in RECORDINGS:
        assert speed(replay(each, "portfolio", "auto", v=v).stats) >= 0.97


@pytest.mark.parametrize("v", [AVX512, AVX2], ids=["avx512", "avx2"])
def test_as_good_as_the_best_fixed_setting_of_each_category(v: Any) -> None:
    """Beside a fixed draft length chosen in hindsight, for each category apart."""
    times: dict[Any, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    costs = LearnedPassCosts(64)
    for gamma in (1, 2, 3, 4, 6, 8, 12, 16, "auto"):
        for each in RECORDINGS:
            stats = replay(each, "suffix", gamma, v=v, costs=costs).stats
            times[gamma][each.category] += stats.decode_seconds
    ours = times.pop("auto")
    for category, seconds in ours.items():
        assert min(fixed[category] for fixed in times.values()) / seconds >= 0.95, category
    whole = min(sum(fixed.values()) for fixed in times.values())
    assert whole / sum(ours.values()) >= 1.03, "over all categories, it beats any one setting"


def test_text_that_turns_is_followed_within_32_tokens() -> None:
    """Unpredictable, then boilerplate, then unpredictable again."""
    line = noise(24, seed=5)
    free, later = noise(400, seed=1), noise(400, seed=2)
    boilerplate = np.concatenate([np.append(line, 40_000 + i) for i in range(12)])
    text = np.concatenate([free, boilerplate, later]).astype(np.int32)
    steps = replay(recording(text), "suffix", "auto", trace=True).trace["steps"]
    ends = np.cumsum([len(step["token_ids"]) for step in steps]) + 8
    drafted = np.array([len(step["draft"]["token_ids"]) for step in steps])
    first = 400 + len(line) + 1  # from here on, the boilerplate has stood there once
    inside = (ends > first + 32) & (ends < 400 + len(boilerplate))
    tokens, rows = int(np.sum(inside)), int(drafted[inside].sum())
    assert rows / tokens > 5, "boilerplate is guessed in long drafts"
    assert drafted[ends < 400].sum() < 0.02 * 400
    assert drafted[ends > 400 + len(boilerplate) + 32].sum() < 0.02 * 400
    turned = ends[(drafted >= 4) & (ends > first)]
    assert turned[0] <= first + 32


# c and alpha of table 2 of Leviathan et al. 2023: T5-XXL with T5-small, base and large.
T5 = [
    *((0.02, 0.75), (0.04, 0.80), (0.11, 0.82), (0.02, 0.62), (0.04, 0.68), (0.11, 0.71)),
    *((0.02, 0.65), (0.04, 0.73), (0.11, 0.74), (0.02, 0.53), (0.04, 0.55), (0.11, 0.56)),
]


def model_speed(c: float, alpha: float, gamma: Gamma, tokens: int = 1200, **rest: Any) -> float:
    made = recording(np.arange(tokens, dtype=np.int32) % 1000)
    model = DraftModelCosts(c, alpha)
    options = {"siblings": 0}
    return speed(
        replay(made, "draft-model", gamma, model=model, vocab_size=1000, options=options, **rest).stats
    )


@pytest.mark.parametrize(("c", "alpha"), T5)
def test_an_accelerator_gets_its_best_gamma(c: float, alpha: float) -> None:
    """Rows are free there: v = 1."""
    costs = LearnedPassCosts(64)
    model_speed(c, alpha, "auto", 300, v=FLAT, costs=costs)  # what the passes cost is known from then on
    ours = model_speed(c, alpha, "auto", v=FLAT, costs=costs)
    best = max(model_speed(c, alpha, gamma, v=FLAT) for gamma in (3, 4, 6, 8, 10))
    assert ours >= 0.97 * best


@pytest.mark.parametrize(("c", "alpha"), [(0.8, 0.5), (0.5, 0.3), (1.2, 0.9)])
def test_a_model_that_does_not_pay_is_left_alone(c: float, alpha: float) -> None:
    assert model_speed(c, alpha, "auto", 300, v=AVX2) >= 0.97


def test_a_model_that_becomes_right_is_found() -> None:
    """Always wrong for 300 tokens, then always right."""
    made = recording(np.arange(700, dtype=np.int32) % 1000, prompt=64)
    model = DraftModelCosts(0.1, lambda position: 0.999 if position > 300 else 0.001)
    run = replay(made, "draft-model", "auto", v=FLAT, model=model, vocab_size=1000, trace=True)
    steps = run.trace["steps"]
    ends = np.cumsum([len(step["token_ids"]) for step in steps]) + 64
    lengths = np.array([len(step["token_ids"]) for step in steps])
    assert lengths[ends > 364].mean() > 3
    assert speed(run.stats) > 1.3


def test_probes_stay_within_their_share() -> None:
    """A model that is never right costs at most 2 % of the time, and what it took to find that out."""
    made = recording(np.arange(2000, dtype=np.int32) % 1000, prompt=64)
    model = DraftModelCosts(0.3, 0.0)
    stats = replay(made, "draft-model", "auto", v=FLAT, model=model, vocab_size=1000).stats
    beginning = 6.0
    assert stats.propose_seconds > 10, "it is tried again now and then"
    assert stats.decode_seconds - stats.num_decoded <= 0.02 * stats.decode_seconds + beginning


def test_guesses_are_scored_without_being_verified() -> None:
    """Where no guess pays, rows are not spent to find that out: each one costs 1.5 passes here."""
    v, costs = tuple(1.5 * m - 0.5 for m in range(1, 17)), LearnedPassCosts(64)
    for rows in (1, 2, 3, 4, 6, 8) * 30:
        costs.learn(rows, v[rows - 1])
    made = recording(np.tile(noise(30), 12))
    run = replay(made, "prompt-lookup", "auto", v=v, costs=costs, trace=True)
    assert run.stats.num_drafted == 0
    [track] = run.trace["steps"][-2]["why"]["members"]
    assert track["num_scored"] > 200
    assert track["mean"] > 0.9


def test_the_first_guess_of_an_unknown_drafter_is_one() -> None:
    trace = replay(RECORDINGS[0], Hostile, "auto", trace=True).trace
    drafted = [len(step["draft"]["token_ids"]) for step in trace["steps"]]
    assert max(drafted) == 1


def test_reasons_are_told() -> None:
    trace = replay(RECORDINGS[0], "portfolio", "auto", trace=True).trace
    reasons = [step.get("why", {}) for step in trace["steps"]]
    assert "plain" in reasons[1], "no pass was measured yet"
    told = next(why for why in reasons if why.get("candidates"))
    assert told["v"][0] == 1.0
    assert {"token_id", "parent", "confidence", "reach", "by", "chosen"} == set(told["candidates"][0])
    for step, why in zip(trace["steps"], reasons, strict=True):
        chosen = [each["token_id"] for each in why.get("candidates", []) if each["chosen"]]
        assert chosen == step["draft"]["token_ids"]


def test_two_runs_are_equal() -> None:
    one, other = (replay(RECORDINGS[3], "portfolio", "auto", trace=True) for _ in range(2))
    assert one.trace == other.trace
    assert one.stats == other.stats

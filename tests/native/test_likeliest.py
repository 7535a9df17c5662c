"""A head's guesses: the likeliest tokens, greedy and under the target's own noise, beside plain numpy."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest

from guessahead._native import likeliest, likeliest_winners
from guessahead.core import sampling
from guessahead.types import ChoiceContext, Float32, Float64, SamplingParams

VOCAB = 400
CONSIDERED = 32
TOKENS = np.arange(VOCAB, dtype=np.int32) * 3 + 1  # those of the target that the head can guess
SETTINGS: dict[str, Any] = {
    "trust": 0.7, "temperature": 0.8, "top_k": 0, "top_p": 1.0, "min_p": 0.0,
    "seed": 5, "stream": 0, "position": 11,
}  # fmt: skip


def logits_of(seed: int) -> Float32:
    return (3.0 * np.random.default_rng(seed).standard_normal(VOCAB)).astype(np.float32)


def softmax(logits: Float32) -> Float64:
    weights: Float64 = np.exp(logits.astype(np.float64) - logits.max())
    return weights / weights.sum()


def winners(logits: Float32, num: int, **changes: Any) -> list[tuple[int, float]]:
    return likeliest_winners(logits, TOKENS, num, **(SETTINGS | changes))


def plain_winners(logits: Float32, **changes: Any) -> list[tuple[int, float]]:
    """The same by its definition, all of the considered ones."""
    s = SETTINGS | changes
    chances = softmax(logits)
    order = np.argsort(-chances, kind="stable")[:CONSIDERED]
    others = 1.0 - chances[order].sum() if s["top_k"] == 0 else 0.0
    order = order[: s["top_k"] or None]
    shares = (chances[order] / chances[order[0]]) ** (1.0 / s["temperature"])
    before = np.cumsum(shares) - shares
    order = order[(before < s["top_p"] * shares.sum()) & (shares >= s["min_p"])]
    noise = sampling.gumbel_noise(s["seed"], s["stream"], s["position"], TOKENS[order])
    softening = max(1.0, s["trust"] * s["temperature"] / 0.95)
    scale = s["trust"] * s["temperature"] / softening
    weights = chances[order] ** (1.0 / softening) * np.exp(scale * noise)
    total = weights.sum() + max(others, 0.0) ** (1.0 / softening) * math.gamma(1.0 - scale)
    best = np.argsort(-weights)
    return [(int(TOKENS[order[i]]), float(weights[i] / total)) for i in best]


@pytest.mark.parametrize("seed", range(5))
def test_the_likeliest_come_first_with_their_chances(seed: int) -> None:
    logits = logits_of(seed)
    indices, chances = likeliest(logits, 7)
    expected = np.argsort(-logits, kind="stable")[:7]
    assert indices == expected.tolist()
    assert chances == pytest.approx(softmax(logits)[expected].tolist(), rel=1e-5)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"temperature": 0.2},
        {"temperature": 3.0},
        {"top_k": 3},
        {"top_p": 0.6},
        {"min_p": 0.3},
        {"top_k": 20, "top_p": 0.9, "min_p": 0.01},
        {"stream": 2, "seed": 1 << 63},
    ],
    ids=str,
)
def test_winners_are_those_of_the_definition(changes: dict[str, Any]) -> None:
    for seed in range(5):
        logits = logits_of(seed)
        found, expected = winners(logits, CONSIDERED, **changes), plain_winners(logits, **changes)
        assert [token for token, _ in found] == [token for token, _ in expected]
        assert [chance for _, chance in found] == pytest.approx([chance for _, chance in expected], rel=1e-4)
        assert winners(logits, 2, **changes) == found[:2]


def test_a_head_that_is_its_target_knows_the_winner() -> None:
    """With full trust in the noise, the order is that in which the target itself chooses."""
    for seed in range(50):
        logits = logits_of(seed)
        params = SamplingParams(temperature=0.3, seed=seed)
        whole = np.full(3 * VOCAB + 1, -1e30, np.float32)
        whole[TOKENS] = logits
        chosen = sampling.choose(whole, ChoiceContext(params, np.zeros(11, np.int32), 3))
        [(token, _)] = winners(logits, 1, trust=1.0, temperature=0.3, seed=seed)
        assert token == chosen


def test_logits_that_are_no_numbers_give_no_guess() -> None:
    for bad, share in product((np.nan, np.inf, -np.inf), (1, VOCAB // 2)):
        logits = logits_of(0)
        logits[::share] = bad
        assert likeliest(logits, 3) == ([], [])
        assert winners(logits, 3) == []


def test_sizes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="one token per logit"):
        likeliest_winners(logits_of(0), TOKENS[1:], 1, **SETTINGS)

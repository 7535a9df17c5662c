"""Choosing under a mask: the native chooser, on each instruction set, does what `sampling.choose` says."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from guessahead import _native
from guessahead.core import sampling
from guessahead.engines.native.choosing import chooser_arguments
from guessahead.types import NOT_ALLOWED, NOT_FINITE, ChoiceContext, Draft, Int32, Mask, SamplingParams

VOCAB = 997
SETTINGS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "sampled": {"temperature": 1.0},
    "top-k": {"temperature": 0.8, "top_k": 7},
    "top-p": {"temperature": 1.3, "top_p": 0.9, "min_p": 0.01},
    "penalties": {"repetition_penalty": 1.4, "presence_penalty": 0.5, "logit_bias": {5: 3.0, 9: -100.0}},
    "min-tokens": {"temperature": 1.0, "min_tokens": 3},
}


@dataclass(frozen=True)
class Fixed:
    """A constraint that always allows the same tokens."""

    allowed: Mask
    is_complete: bool = False

    def mask(self, history: Int32, path: object = ()) -> Mask:
        return self.allowed

    def admitted(self, draft: Draft) -> Draft:
        return draft

    def forced(self, limit: int) -> list[tuple[int, float]]:
        return []

    def commit(self, token_id: int) -> None: ...


def packed(ids: np.ndarray[Any, Any]) -> Mask:
    """The set of these ids, and of some beyond the vocabulary, which must not matter."""
    bits = np.zeros((VOCAB + 31) // 32 * 32, np.uint8)
    bits[ids] = 1
    bits[VOCAB:] = 1
    return np.packbits(bits, bitorder="little").view(np.uint32)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("num_allowed", [1, 2, 30, 500, 990, VOCAB])
def test_the_native_choice_is_the_defined_one(setting: str, num_allowed: int) -> None:
    random = np.random.default_rng([num_allowed, len(setting)])
    for seed in range(20):
        history = random.integers(0, VOCAB, 9).astype(np.int32)
        logits = (4 * random.standard_normal(VOCAB)).astype(np.float32)
        if seed % 3 == 0:
            logits = np.round(logits)  # equal ones
        mask = packed(random.permutation(VOCAB)[:num_allowed])
        context = ChoiceContext(SamplingParams(**SETTINGS[setting], seed=seed), history, 7, (3, 4))
        expected = sampling.choose(logits, replace(context, constraint=Fixed(mask)))
        chooser = _native.Chooser(**chooser_arguments(context))
        chooser.sync(history)
        for isa in _native.isas():
            assert chooser.choose(logits, isa=isa, mask=mask) == expected
        assert expected == NOT_ALLOWED or mask[expected // 32] >> (expected % 32) & 1


@pytest.mark.parametrize("token", [0, 5, 996])
def test_where_every_allowed_token_is_banned_there_is_no_choice(token: int) -> None:
    params = SamplingParams(logit_bias={token: float("-inf")}, temperature=1.0, seed=1)
    context = ChoiceContext(params, np.array([1], np.int32), 1)
    logits = np.zeros(VOCAB, np.float32)
    for mask in (packed(np.array([token])), packed(np.array([], np.int64))):
        chooser = _native.Chooser(**chooser_arguments(context))
        chooser.sync(context.history)
        assert chooser.choose(logits, mask=mask) == NOT_ALLOWED
        assert sampling.choose(logits, replace(context, constraint=Fixed(mask))) == NOT_ALLOWED
        assert not sampling.probabilities(logits, replace(context, constraint=Fixed(mask))).any()


def test_a_number_that_is_not_finite_is_found_behind_a_mask_too() -> None:
    logits = np.zeros(VOCAB, np.float32)
    logits[700] = np.nan
    mask = packed(np.array([1, 2]))
    for params in (SamplingParams(), SamplingParams(temperature=1.0, seed=1)):
        context = ChoiceContext(params, np.array([1], np.int32), 1)
        chooser = _native.Chooser(**chooser_arguments(context))
        chooser.sync(context.history)
        assert chooser.choose(logits, mask=mask) == NOT_FINITE
        assert sampling.choose(logits, replace(context, constraint=Fixed(mask))) == NOT_FINITE


def test_a_mask_that_is_too_short_is_refused() -> None:
    context = ChoiceContext(SamplingParams(), np.array([1], np.int32), 1)
    chooser = _native.Chooser(**chooser_arguments(context))
    with pytest.raises(ValueError, match="too short"):
        chooser.choose(np.zeros(VOCAB, np.float32), mask=np.zeros(31, np.uint32))

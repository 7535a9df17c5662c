"""acceptance="rejection": the law of the text is plain decoding's, by enumerating all that chance may do.

Each check has twins that are broken in a way that others have shipped, and they must fail it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from guessahead.controller.members import Member
from guessahead.core import rejection
from guessahead.core.rejection import Use
from guessahead.drafters.draft_model import DraftModel
from guessahead.drafters.model_base import DraftModelOptions
from guessahead.types import ChoiceContext, Draws, Float32, Float64
from tests.support.enumeration import distance
from tests.support.sampling_world import (
    DIFFERENT,
    SAME,
    SETTINGS,
    VOCAB,
    Picky,
    SharedNoise,
    World,
    model,
    portfolio,
    prompt_lookup,
    suffix,
)


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("drafter", [model, suffix])
def test_a_fixed_gamma_keeps_the_law(drafter, settings):
    world = World(drafter, settings, gamma=2, max_tokens=4)
    assert distance(*world.laws()) < SAME
    assert world.lengths[2] > 0


@pytest.mark.parametrize(("drafter", "gamma"), [(portfolio, 3), (portfolio, 1), (prompt_lookup, 3)])
def test_other_drafters_and_draft_lengths_keep_the_law(drafter, gamma):
    world = World(drafter, "top-p", gamma, max_tokens=4)
    assert distance(*world.laws()) < SAME
    assert world.lengths[min(gamma, 2)] > 0


@pytest.mark.parametrize("second_vocab", [VOCAB - 1, VOCAB + 2])
def test_a_draft_model_with_another_number_of_tokens_keeps_the_law(second_vocab):
    world = World(model, "temperature", 2, max_tokens=3, second_vocab=second_vocab)
    assert distance(*world.laws()) < SAME
    assert world.lengths[1] > 0


@pytest.mark.parametrize(
    ("drafter", "settings", "c"),
    [
        (model, "top-k", 0.3),
        (model, "all", 0.25),
        (portfolio, "all", 0.3),
        (portfolio, "temperature", 0.3),
        (suffix, "temperature", 0.3),
        (suffix, "all", 0.3),
    ],
)
def test_the_controller_keeps_the_law(drafter, settings, c, monkeypatch):
    monkeypatch.setattr(Member, "trusted", lambda _, limit: limit)  # long drafts at once
    max_tokens = 4 if settings == "temperature" else 5
    world = World(drafter, settings, "auto", max_tokens, c)
    assert distance(*world.laws()) < SAME
    assert world.num_short > 0, "the controller decided nothing"
    assert max(world.lengths) > 1
    assert drafter is not portfolio or world.guessed_by == {"suffix", "draft-model"}


def test_a_controller_that_makes_a_drafter_earn_its_trust_keeps_the_law():
    world = World(model, "top-k", "auto", max_tokens=5)
    assert distance(*world.laws()) < SAME
    assert world.lengths[1] > 0
    assert world.num_short > 0


# --- twins ---


class RawQ(DraftModel):
    """States the distribution before the filters, and samples from the one behind them."""

    def _next(
        self, chosen: int, logits: Float32, context: ChoiceContext, draws: Draws | None
    ) -> list[tuple[int, float]]:
        ranked = super()._next(chosen, logits, context, draws)
        weights = np.exp(logits.astype(np.float64) / context.params.temperature)
        self._distributions[-1] = weights / weights.sum()
        return ranked


class PickyModel(Picky, DraftModel):
    pass


@pytest.mark.parametrize("gamma", [2, "auto"])
@pytest.mark.parametrize("twin", [RawQ, PickyModel])
def test_twins_that_state_or_keep_the_wrong_thing_fail(twin, gamma):
    world = World(lambda setup: twin(DraftModelOptions(), setup), "top-p", gamma, 5 if gamma == "auto" else 4)
    ours, plain = world.laws()
    assert sum(ours.values()) == pytest.approx(1.0, abs=SAME)
    assert distance(ours, plain) > DIFFERENT


def test_a_twin_that_shares_noise_between_guess_and_test_fails():
    world = World(model, "top-k", gamma=2, max_tokens=4)
    world.outcomes = SharedNoise()
    ours, plain = world.laws()
    assert sum(ours.values()) == pytest.approx(1.0, abs=SAME)
    assert distance(ours, plain) > DIFFERENT


def test_a_twin_that_replaces_from_the_whole_of_p_fails(monkeypatch):
    def from_p(guess: int, p: Float64, q: Float64, draws: Any, place: tuple[int, int]) -> int:
        kept = draws.passes(Use.TEST, p[guess] / q[guess], *place)
        return guess if kept else int(draws.pick(Use.REPLACEMENT, p, *place))

    monkeypatch.setattr(rejection, "_judge", from_p)
    assert distance(*World(model, "top-k", gamma=2, max_tokens=4).laws()) > DIFFERENT

"""Every drafter x setting x draft length x seed: the output is plain decoding's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import guessahead.core.step
from guessahead import _native
from guessahead.core.verify import accept
from guessahead.errors import StateError
from guessahead.types import ChoiceContext, Draft, Float32, Int32, Verdict
from tests.conftest import Compared, Report
from tests.equivalence.grid import (
    DRAFTERS,
    SETTINGS,
    cells,
    check,
    make_drafter,
    num_compared,
    plain_decoding,
    requests,
    run,
)
from tests.equivalence.worlds import FORMATS, WORLDS, World, shared_world, tiny_world
from tests.support.fakes import FakeSequence, TinyEngine

# The drafters whose guesses branch.
TREES = ("draft-model", "head", "portfolio", "self-q4", "self-q8", "suffix", "tree-oracle", "tree-hostile")


# `make test` takes so many cells of the grid, `make proof` all of them.
ONE_IN = 3


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_output_is_plain(world: World, drafter: str, setting: str, compared: Compared) -> None:
    check(world, drafter, setting, ONE_IN)
    compared(num_compared(world, drafter, setting, ONE_IN))


@pytest.mark.proof
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_output_is_plain_in_all_of_the_grid(
    world: World, drafter: str, setting: str, compared: Compared
) -> None:
    check(world, drafter, setting)
    compared(num_compared(world, drafter, setting))


def test_the_sample_has_something_of_everything() -> None:
    """Each world, drafter and setting has a test; together they have each seed, and each draft length."""
    assert {format for formats in FORMATS.values() for format in formats} == set(_native.FORMATS)
    world = tiny_world()
    for name in DRAFTERS:
        for setting in SETTINGS:
            found = [(request.params.seed, gamma) for request, gamma in cells(world, name, setting, ONE_IN)]
            assert {seed for seed, _ in found} == set(world.seeds)
            assert {gamma for _, gamma in found} == set(world.gammas)
            assert len(found) * ONE_IN == len(world.seeds) * len(world.gammas)


@pytest.mark.proof
def test_the_grid_is_large(report: Report) -> None:
    """All of `test_output_is_plain_in_all_of_the_grid` together, and of its half where guesses form trees."""
    worlds = [shared_world(name) for name in WORLDS]
    num_tokens = {
        name: sum(num_compared(world, name, setting) for world in worlds for setting in SETTINGS)
        for name in DRAFTERS
    }
    with_trees = sum(num_tokens[name] for name in DRAFTERS if name in TREES)
    report(f"{sum(num_tokens.values())} tokens compared, {with_trees} of them with trees")
    assert sum(num_tokens.values()) >= 100_000
    assert with_trees >= 50_000


def test_trees_are_trees() -> None:
    world = replace(tiny_world(), gammas=(8,), seeds=(0, 1))
    for name in TREES:
        assert any(is_tree(world, name, setting) for setting in SETTINGS), name


def is_tree(world: World, name: str, setting: str) -> bool:
    """Whether it makes a draft of two branches somewhere."""
    for request in requests(world, setting, gamma=8):
        text = [*request.prompt_ids.tolist(), *plain_decoding(world, setting, request).token_ids]
        _, found = run(world, make_drafter(name, world, text), replace(request, trace=True))
        assert found.trace is not None
        for step in found.trace["steps"]:
            parents = step["draft"]["parents"]
            if parents != list(range(-1, len(parents) - 1)):
                return True
    return False


def test_the_grid_visits_every_outcome() -> None:
    """Otherwise equality would say little: all ends, and accepted and rejected guesses at every depth."""
    world = replace(tiny_world(), gammas=(3, 8))
    found = [g for drafter in DRAFTERS for setting in SETTINGS for g in check(world, drafter, setting)]
    assert {g.finish_reason for g in found} == {"eos", "stop", "length"}
    for name in DRAFTERS:
        stats = [g.stats for g in found if g.stats.drafter == name]
        num_tested, num_accepted = sum(s.num_tested for s in stats), sum(s.num_accepted for s in stats)
        if name == "none":
            assert num_tested == 0
        elif name == "grammar":  # each letter is a token, so what is forced can be cut in one way only
            assert num_tested == num_accepted > 100
        elif "hostile" in name:
            assert num_tested > 1000
            assert num_accepted == 0
        else:
            assert 100 < num_accepted < num_tested
    oracle = [g.stats for g in found if g.stats.drafter == "oracle" and g.stats.gamma == 8]
    assert {k for s in oracle for k, steps in enumerate(s.accepted_lengths) if steps} >= {0, 1, 2, 3, 5, 8}


def _first_unchecked(draft: Draft, chosen: Int32) -> Verdict:
    """Takes the first guess whatever the target chose."""
    if len(draft) == 0:
        return accept(draft, chosen)
    trusting = chosen.copy()
    trusting[0] = draft.token_ids[0]
    trusting[1] = max(trusting[1], 0)
    return accept(draft, trusting)


def _bonus_forgotten(draft: Draft, chosen: Int32) -> Verdict:
    """After full acceptance, repeats the last guess instead of the target's own token."""
    verdict = accept(draft, chosen)
    if len(draft) and verdict.num_tested == len(verdict.path):
        token_ids = verdict.token_ids.copy()
        token_ids[-1] = token_ids[-2]
        return replace(verdict, token_ids=token_ids)
    return verdict


class _ShiftedKeep(FakeSequence):
    """Keeps the right number of rows, each one too early."""

    def keep(self, path: Int32) -> None:
        rows = [self.pending_rows[row - 1][1] for row in path.tolist()]
        super().keep(path)
        if rows:
            self.tokens[-len(rows) :] = rows


class _GreedyKeep(FakeSequence):
    """Puts one rejected row behind those that are kept, over the token that is pending next."""

    def keep(self, path: Int32) -> None:
        rejected = [token for row, (_, token) in enumerate(self.pending_rows) if row > self.choose_from]
        super().keep(path)
        if len(path) < len(rejected):
            self.tokens[-1] = rejected[len(path)]


class _StaleHistory(TinyEngine):
    """Chooses at the right position, but with penalties that do not see the block's own tokens."""

    def choose_one(self, logits: Float32, choice: ChoiceContext, path: list[int]) -> int:
        return super().choose_one(logits, choice, [int(choice.history[-1])] * len(path))


class _NeighbourSensitive(TinyEngine):
    """Logits that depend a little on how many rows share the pass: what row independence forbids."""

    def logits_after(self, token_ids: tuple[int, ...]) -> Float32:
        return super().logits_after(token_ids) + np.float32(self._last_width) * self._noise((99, *token_ids))

    _last_width = 0.0

    def _forward_one(self, rows: Any) -> Any:
        self._last_width = 0.01 * (len(rows.token_ids) - (rows.choose_from or 0))
        return super()._forward_one(rows)


def _any_difference(world: World, setting: str) -> bool:
    for drafter in ("prompt-lookup", "draft-model", "hostile", "oracle"):
        try:
            check(world, drafter, setting)
        except (AssertionError, StateError):  # or a token that the grammar does not allow
            return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize("faulty", [_first_unchecked, _bonus_forgotten])
@pytest.mark.parametrize("setting", SETTINGS)
def test_a_faulty_acceptance_is_caught(setting: str, faulty: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    world = replace(tiny_world(), seeds=(0, 2, 4))  # no logits wanted: there are none after unchosen rows
    assert not _any_difference(world, setting)
    monkeypatch.setattr(guessahead.core.step, "accept", faulty)
    assert _any_difference(world, setting)


@pytest.mark.parametrize("faulty", [_ShiftedKeep, _GreedyKeep])
@pytest.mark.parametrize("setting", SETTINGS)
def test_a_faulty_cache_is_caught(setting: str, faulty: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TinyEngine, "sequence_type", faulty)
    assert _any_difference(tiny_world(), setting)


@pytest.mark.parametrize(
    ("faulty", "setting"),
    [(_StaleHistory, "penalties"), (_StaleHistory, "penalties-sampled"), (_NeighbourSensitive, "sampled")],
)
def test_a_faulty_engine_is_caught(faulty: type[TinyEngine], setting: str) -> None:
    assert _any_difference(replace(tiny_world(), engine=faulty()), setting)

"""Real models: the grid on SmolLM2-135M, and a real pair, Qwen2.5-Coder 1.5B guessed by the 0.5B."""

from __future__ import annotations

from dataclasses import replace
from statistics import geometric_mean
from typing import Any

import pytest

import guessahead as ga
from guessahead.drafters import registry
from guessahead.drafters.base import DrafterResources
from guessahead.measure.bench.comparison import Comparison
from guessahead.measure.bench.workload import default_tasks, select
from tests.conftest import Compared, Report
from tests.equivalence.grid import OUR_DRAFTERS, SETTINGS, check, num_compared, plain_decoding, requests, run
from tests.equivalence.worlds import World, smollm2_world

pytestmark = pytest.mark.model

# The tree that is always wrong would add nothing here to the chain that is.
DRAFTERS = [name for name in (*registry.names(), *OUR_DRAFTERS) if name not in ("none", "tree-hostile")]
PAIR_TASKS = ("code-lru", "json-users", "edit-types", "qa-sky", "story-light")


@pytest.fixture(scope="module")
def smollm2(tmp_path_factory: pytest.TempPathFactory) -> World:
    return smollm2_world(tmp_path_factory.mktemp("smollm2"))


@pytest.mark.parametrize(
    ("drafter", "one_in"),
    [
        *((name, 3) for name in DRAFTERS),
        *(pytest.param(name, 1, marks=pytest.mark.proof) for name in DRAFTERS),
    ],
)
def test_output_of_smollm2_is_plain(
    smollm2: World, drafter: str, one_in: int, report: Report, compared: Compared
) -> None:
    found = [g.stats for setting in SETTINGS for g in check(smollm2, drafter, setting, one_in)]
    compared(sum(num_compared(smollm2, drafter, setting, one_in) for setting in SETTINGS))
    num_tested, num_accepted = sum(s.num_tested for s in found), sum(s.num_accepted for s in found)
    tau = sum(s.num_decoded for s in found) / sum(s.num_passes for s in found)
    report(f"{len(found)} texts identical, alpha {num_accepted / num_tested:.2f}, tau {tau:.2f}")
    if drafter == "hostile":
        assert num_tested > 500 // one_in
        assert num_accepted == 0
    elif drafter == "head" and smollm2.engine.head() is None:  # random weights
        assert num_tested > 500 // one_in
    else:
        assert 20 // one_in < num_accepted < num_tested


@pytest.mark.proof
def test_the_smollm2_grid_is_large(smollm2: World, report: Report) -> None:
    num_tokens = sum(num_compared(smollm2, name, setting) for name in DRAFTERS for setting in SETTINGS)
    report(f"{num_tokens} tokens compared")
    assert num_tokens >= 10_000


@pytest.mark.proof
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_tenfold_on_smollm2(smollm2: World, drafter: str, compared: Compared) -> None:
    many = replace(smollm2, seeds=range(10 * len(smollm2.seeds)))
    found = [generation for setting in SETTINGS for generation in check(many, drafter, setting)]
    num_tokens = sum(len(generation.token_ids) for generation in found)
    compared(num_tokens)
    assert num_tokens * len(DRAFTERS) >= 100_000


def test_the_smollm2_grid_visits_every_end(smollm2: World) -> None:
    ends = {
        plain_decoding(smollm2, setting, request).finish_reason
        for setting in SETTINGS
        for request in requests(smollm2, setting)
    }
    assert ends == {"eos", "stop", "length"}


@pytest.mark.parametrize("setting", ["greedy", "sampled"])
def test_case_04_smollm2_drafting_for_itself_is_always_right(smollm2: World, setting: str) -> None:
    """So the same tokens come out of passes of one row and of eight."""
    for request in requests(smollm2, setting, gamma=7):
        drafter = registry.make("draft-model", {}, DrafterResources(smollm2.engine, smollm2.engine))
        _, generation = run(smollm2, drafter, request)
        assert generation.stats.alpha == 1.0


@pytest.fixture(scope="module")
def pair() -> tuple[ga.LanguageModel, ga.LanguageModel]:
    return ga.load("qwen2.5-coder-1.5b"), ga.load("qwen2.5-coder-0.5b")


@pytest.mark.parametrize("max_tokens", [64, pytest.param(128, marks=pytest.mark.proof)])
@pytest.mark.parametrize("sampling", [{}, {"temperature": 0.8, "top_p": 0.95}], ids=["greedy", "sampled"])
def test_output_of_the_pair_is_plain(
    pair: Any, sampling: dict[str, Any], max_tokens: int, report: Report
) -> None:
    target, draft = pair
    ratios, num_tested, num_accepted = [], 0, 0
    for task in select(default_tasks(), PAIR_TASKS):
        settings: dict[str, Any] = {"max_tokens": max_tokens, "seed": 1} | sampling
        plain = target.generate(task.prompt, drafter="none", **settings)
        # A fixed gamma: on a busy machine the controller may find that guessing does not pay.
        ours = target.generate(task.prompt, drafter="draft-model", draft_model=draft, gamma=4, **settings)
        stats, comparison = ours.stats, Comparison((plain,), (ours,))
        report(
            f"{task.prompt_id}: {stats.num_tokens} tokens, {comparison.verdict}, alpha {stats.alpha}, "
            f"tau {stats.tau}, {comparison.prediction}, ratio {comparison.ratio}"
        )
        assert ours.token_ids == plain.token_ids
        assert (ours.text, ours.finish_reason) == (plain.text, plain.finish_reason)
        ratios.append(comparison.ratio)
        num_tested, num_accepted = num_tested + stats.num_tested, num_accepted + stats.num_accepted
    assert 100 < num_accepted < num_tested
    report(f"mean ratio {geometric_mean(ratios):.2f}")

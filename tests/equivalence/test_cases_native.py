"""Cases from public bug reports of this field, on the native engine with tiny models."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

import pytest

import guessahead as ga
from guessahead.drafters import registry
from guessahead.drafters.base import Drafter, DrafterResources
from guessahead.drafters.model_base import DraftModelOptions
from guessahead.protocols import Engine, EngineInfo, PassOutput, Rows, SequenceState
from guessahead.types import Float32, Generation
from tests.support.fake_drafters import HostileDrafter, SlippingDraftModel, TreeOracleDrafter
from tests.support.fakes import decode_stream, request
from tests.support.rewriting import rewrite
from tests.support.tiny import NUM_TOKENS, tiny_gguf

PROMPT = "the quick brown fox jumps over the lazy dog and the quick"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cases")


@pytest.fixture(scope="module")
def path(folder: Path) -> Path:
    return tiny_gguf(folder / "tiny.gguf", "qwen2", seed=4).path


@pytest.fixture(scope="module")
def lm(path: Path) -> ga.LanguageModel:
    return ga.load(path, threads=2)


class Watched:
    """An engine that remembers how many rows it was given, call by call."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.num_rows: list[int] = []

    @property
    def info(self) -> EngineInfo:
        return self._engine.info

    def new_sequence(self) -> SequenceState:
        return self._engine.new_sequence()

    def forward(self, requests: list[Rows]) -> list[PassOutput]:
        self.num_rows += [len(rows.token_ids) for rows in requests]
        return self._engine.forward(requests)


def run(lm: ga.LanguageModel, drafter: Drafter, max_tokens: int, gamma: int, **settings: Any) -> Generation:
    asked = request(lm.tokenizer.encode(PROMPT), max_tokens, gamma, **settings)
    _, generation = decode_stream(lm.runner.engine, drafter, lm.tokenizer, asked)
    return generation


@pytest.mark.parametrize("settings", [{}, {"temperature": 1.0}], ids=["greedy", "sampled"])
@pytest.mark.parametrize("gamma", [1, 2, 4, 7])
def test_case_04_a_model_that_drafts_for_itself_is_always_right(
    lm: ga.LanguageModel, path: Path, gamma: int, settings: dict[str, Any]
) -> None:
    second = Watched(ga.load(path, threads=1).runner.engine)
    stats = run(
        lm,
        registry.make("draft-model", {}, DrafterResources(lm.runner.engine, second)),
        100,
        gamma,
        **settings,
    ).stats
    assert stats.alpha == 1.0
    assert stats.num_tested > 30
    assert max(second.num_rows[1:]) <= 2


def test_case_04_acceptance_is_full_again_after_a_rejection(lm: ga.LanguageModel, path: Path) -> None:
    second = Watched(ga.load(path, threads=1).runner.engine)
    drafter = SlippingDraftModel(DraftModelOptions(), DrafterResources(lm.runner.engine, second))
    stats = run(lm, drafter, 100, 4).stats
    assert stats.num_tested - stats.num_accepted == drafter.num_slips >= 5
    assert max(second.num_rows[1:]) <= 2


def test_case_10_nearly_zero_temperatures_are_greedy(lm: ga.LanguageModel) -> None:
    greedy = lm.generate(PROMPT, raw=True, max_tokens=40, logprobs=1)
    for settings in ({"temperature": 1e-6}, {"temperature": 1e-5}, {"temperature": 1.0, "top_k": 1}):
        found = lm.generate(PROMPT, raw=True, max_tokens=40, logprobs=1, **settings)
        assert (found.token_ids, found.logprobs) == (greedy.token_ids, greedy.logprobs)


def test_case_14_seeded_requests_that_take_turns(lm: ga.LanguageModel) -> None:
    settings: dict[str, Any] = {"raw": True, "max_tokens": 30, "temperature": 1.0, "gamma": 3}
    solo = {seed: lm.generate(PROMPT, seed=seed, **settings).token_ids for seed in (1, 2, 3)}
    assert len(set(solo.values())) == 3
    streams = {seed: lm.stream(PROMPT, seed=seed, **settings) for seed in solo}
    for _ in itertools.zip_longest(*streams.values()):  # one chunk of each in turn
        pass
    assert {seed: stream.result.token_ids for seed, stream in streams.items()} == solo


@pytest.mark.parametrize("more", [(0, 40), (40, 0), (9, 40)], ids=str)
def test_case_15_padded_vocabularies(folder: Path, more: tuple[int, int]) -> None:
    """At this temperature the shared noise decides: two unrelated models often agree, paddings included."""
    sizes = [NUM_TOKENS + padding for padding in more]
    target, second = (
        ga.load(tiny_gguf(folder / f"{size}.gguf", vocab=size, seed=size).path, threads=1) for size in sizes
    )
    num_accepted = 0
    for seed in range(8):
        settings: dict[str, Any] = {"raw": True, "max_tokens": 30, "temperature": 60.0, "seed": seed}
        plain = target.generate(PROMPT, drafter="none", **settings)
        ours = target.generate(PROMPT, drafter="draft-model", draft_model=second, gamma=4, **settings)
        assert ours.token_ids == plain.token_ids
        assert ours.text == plain.text
        num_accepted += ours.stats.num_accepted
    assert num_accepted > 20


@pytest.mark.parametrize("draft_context", [8, 30, 45, 64])
@pytest.mark.parametrize("gamma", [1, 4, 8])
def test_case_16_context_ends(path: Path, gamma: int, draft_context: int) -> None:
    target, second = ga.load(path, threads=1, context=50), ga.load(path, threads=1, context=draft_context)
    prompt = target.tokenizer.encode(PROMPT)
    plain = target.generate(prompt, drafter="none", max_tokens=1000)
    assert (len(plain.token_ids), plain.finish_reason) == (50 - len(prompt), "context")
    ours = target.generate(prompt, drafter="draft-model", draft_model=second, gamma=gamma, max_tokens=1000)
    assert (ours.token_ids, ours.text, ours.finish_reason) == (plain.token_ids, plain.text, "context")
    assert (ours.stats.num_accepted > 0) == (draft_context > len(prompt))


def test_case_19_readers_that_go_away_leave_nothing_behind(lm: ga.LanguageModel) -> None:
    prompt = lm.tokenizer.encode(PROMPT * 12)
    settings: dict[str, Any] = {"max_tokens": 24, "temperature": 0.8, "seed": 5}
    expected = lm.generate(prompt, **settings).token_ids

    def leave(num_requests: int) -> None:
        for count in range(num_requests):
            with lm.stream(prompt, **settings) as stream:
                for _ in range(count % 12):
                    next(stream, None)

    leave(12)
    before = resident_bytes()
    leave(200)
    # A sequence of this length holds a tenth of a megabyte of cache.
    assert resident_bytes() - before < 8e6
    assert lm.generate(prompt, **settings).token_ids == expected


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_case_20_a_useless_drafter_costs_no_pass(lm: ga.LanguageModel) -> None:
    plain = run(lm, registry.make("none", {}, DrafterResources(lm.runner.engine)), 40, 0)
    text = [*lm.tokenizer.encode(PROMPT), *plain.token_ids]
    ours = run(lm, HostileDrafter(text, lm.runner.engine.info.vocab_size), 40, 5)
    assert ours.token_ids == plain.token_ids
    assert ours.stats.num_tested > 30
    assert ours.stats.num_passes == plain.stats.num_passes
    assert ours.stats.num_prompt_passes == plain.stats.num_prompt_passes


def test_case_21_ties_go_to_the_lowest_id(path: Path, folder: Path) -> None:
    """Every token has a twin with the same row of the output matrix, so every choice is a tie."""

    def in_pairs(name: str, values: Float32) -> Float32:
        return values[::2].repeat(2, axis=0) if name == "output.weight" else values

    rewrite(path, folder / "twins.gguf", in_pairs)
    lm = ga.load(folder / "twins.gguf", threads=2)
    num_vocab = lm.runner.engine.info.vocab_size
    for settings in ({"logprobs": 2}, {"temperature": 1e-6}, {"temperature": 0.8, "top_k": 1}):
        plain = run(lm, registry.make("none", {}, DrafterResources(lm.runner.engine)), 40, 0, **settings)
        assert all(token % 2 == 0 for token in plain.token_ids)
        text = [*lm.tokenizer.encode(PROMPT), *plain.token_ids]
        ours = run(lm, TreeOracleDrafter(text, [2, 0, 1, 8], num_vocab), 40, 9, **settings)
        assert (ours.token_ids, ours.logprobs) == (plain.token_ids, plain.logprobs)
        for found in plain.logprobs or ():
            (first, p), (twin, q) = found.top
            assert (twin, q) == (first + 1, p)

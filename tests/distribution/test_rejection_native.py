"""acceptance="rejection" on the native engine: the rows that it judges by, and that nothing else enters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import guessahead as ga
from guessahead.protocols import Rows
from guessahead.types import ChoiceContext, Float32, SamplingParams
from tests.support.tiny import tiny_gguf

PROMPT = "the quick brown fox jumps over the lazy dog and the quick"
SAMPLED: dict[str, Any] = {"temperature": 1.2, "top_p": 0.95, "repetition_penalty": 1.1, "seed": 3}


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("rejection")
    return [tiny_gguf(folder / f"tiny{seed}.gguf", "qwen2", seed=seed).path for seed in (4, 5)]


def test_a_pass_shows_the_logits_of_every_row_of_a_draft(paths: list[Path]) -> None:
    engine = ga.load(paths[0], threads=2).runner.engine
    text = np.random.default_rng(0).integers(0, engine.info.vocab_size, 12).astype(np.int32)
    num_given = 7
    choice = ChoiceContext(SamplingParams(temperature=1.0, seed=1), text[:num_given], num_given)
    sequence = engine.new_sequence()
    rows = Rows(sequence, text, context=choice, choose_from=num_given - 1, want_logits="all")
    [led] = engine.forward([rows])
    assert led.logits is not None
    assert sorted(led.logits) == list(range(num_given - 1, len(text)))

    def alone(place: int) -> Float32:
        plain = ChoiceContext(choice.params, text[: place + 1], num_given)
        fresh = Rows(engine.new_sequence(), text[: place + 1], context=plain, want_logits="path")
        [output] = engine.forward([fresh])
        assert output.logits is not None
        return output.logits[place]

    for place, logits in led.logits.items():
        assert np.array_equal(logits, alone(place)), place


def test_the_target_as_its_own_draft_model_is_always_right(paths: list[Path]) -> None:
    lm = ga.load(paths[0], threads=1)
    drafting: dict[str, Any] = {"drafter": "draft-model", "draft_model": ga.load(paths[0], threads=1)}
    settings = drafting | SAMPLED | {"max_tokens": 40, "min_tokens": 40, "raw": True}
    result = lm.generate(PROMPT, gamma=4, acceptance="rejection", **settings)
    assert result.stats.alpha == 1.0
    assert result.stats.num_drafted > 25


@pytest.mark.parametrize("drafter", ["draft-model", "portfolio", "self-q8"])
def test_threads_do_not_change_the_text(paths: list[Path], drafter: str) -> None:
    texts, accepted = set(), set()
    for threads in (1, 2):
        lm = ga.load(paths[0], threads=threads)
        second: dict[str, Any] = {}
        if drafter != "self-q8":
            second = {"draft_model": ga.load(paths[1], threads=threads)}
        settings = second | SAMPLED | {"max_tokens": 30, "raw": True, "drafter": drafter}
        result = lm.generate(PROMPT, gamma=3, acceptance="rejection", **settings)
        texts.add(result.token_ids)
        accepted.add(result.stats.num_accepted)
        plain = lm.generate(PROMPT, gamma=0, acceptance="rejection", **settings)
        assert plain.token_ids == lm.generate(PROMPT, **settings).token_ids
    assert len(texts) == 1
    assert len(accepted) == 1

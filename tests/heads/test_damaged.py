"""Heads with changed bytes: refused in one line, or the text is plain decoding's."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import guessahead as ga
from guessahead.errors import ModelError
from guessahead.heads.files import HeadFiles
from tests.fuzz.mutate import mutate_bytes, mutate_json

WEIGHTS = "model.safetensors"
PROMPT = "the quick brown fox"


@pytest.mark.filterwarnings("ignore:the draft head computes numbers that are not finite")
def test_mutations(lm: ga.LanguageModel, folder: Path) -> None:
    """Refused in one line, or the text is plain's."""
    originals = {name: (folder / name).read_bytes() for name in ("config.json", WEIGHTS)}
    length = 8 + int.from_bytes(originals[WEIGHTS][:8], "little")
    plain = lm.generate(PROMPT, max_tokens=4, raw=True, drafter="none").token_ids
    outcomes = {True: 0, False: 0}
    for number in range(90):
        rng = random.Random(number)
        for name, data in originals.items():
            (folder / name).write_bytes(data)
        if number % 3 == 0:
            (folder / "config.json").write_bytes(mutate_json(originals["config.json"].decode(), rng))
        else:
            part = length if number % 3 == 1 else len(originals[WEIGHTS])
            (folder / WEIGHTS).write_bytes(mutate_bytes(originals[WEIGHTS], rng, part))
        lm.runner._heads.clear()
        try:
            options = {"path": str(folder)}
            ours = lm.generate(
                PROMPT, max_tokens=4, raw=True, drafter="head", drafter_options=options, gamma=2
            )
            works, problem = ours.token_ids == plain, ""
        except ModelError as error:
            works, problem = False, str(error)
        assert works or problem
        assert "\n" not in problem
        outcomes[works] += 1
    assert min(outcomes.values()) > 10


@pytest.mark.filterwarnings("ignore:the draft head computes numbers that are not finite")
def test_weights_of_noise(lm: ga.LanguageModel, folder: Path) -> None:
    """Scales that are not numbers, infinite, or huge."""
    files = HeadFiles.load(folder)
    for seed in range(4):
        rng = np.random.default_rng(seed)
        noise = {name: rng.integers(0, 256, data.shape, np.uint8) for name, data in files.matrices.items()}
        replace(files, matrices=noise).save(folder)
        for settings in ({}, {"temperature": 0.9, "seed": 1}):
            texts = [
                lm.generate(PROMPT, max_tokens=12, raw=True, gamma=3, **settings, **drafter).token_ids  # type: ignore[arg-type]
                for drafter in (
                    {"drafter": "none"},
                    {"drafter": "head", "drafter_options": {"path": str(folder)}},
                )
            ]
            assert texts[0] == texts[1]
        lm.runner._heads.clear()

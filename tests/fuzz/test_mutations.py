"""The first mutations of the fuzzer, and those that found something: refused in one line, or it works."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from tests.fuzz.run import check, makers

# What was found: a lone surrogate for a token.
FOUND = [("tokenizer_config.json", number) for number in (69, 135, 225, 291)]


@pytest.mark.filterwarnings("default")  # of numpy, about values that a damaged file holds
def test_mutations(tmp_path: Path) -> None:
    kinds = makers(tmp_path)
    names = list(kinds)
    outcomes: Counter[str] = Counter()
    for name, number in [*((names[number % len(names)], number) for number in range(350)), *FOUND]:
        outcomes[check(kinds[name](random.Random(f"0 {number}")))] += 1
    assert min(outcomes["refused"], outcomes["works"]) > 50

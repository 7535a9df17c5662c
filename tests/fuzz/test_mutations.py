"""The first mutations of the fuzzer, and those that found something: refused in one line, or it works."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from tests.fuzz.run import check, makers

FOUND = (69, 135, 225, 291)  # a lone surrogate for a token


@pytest.mark.filterwarnings("default")  # of numpy, about values that a damaged file holds
def test_mutations(tmp_path: Path) -> None:
    kinds = list(makers(tmp_path).values())
    outcomes: Counter[str] = Counter()
    for number in [*range(300), *FOUND]:
        outcomes[check(kinds[number % len(kinds)](random.Random(f"0 {number}")))] += 1
    assert min(outcomes["refused"], outcomes["works"]) > 50

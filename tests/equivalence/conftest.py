from __future__ import annotations

import pytest

from tests.equivalence.worlds import WORLDS, World, shared_world

# The worlds of `make test-quick`: Python's engine, a format of blocks, two tokenizers.
QUICK = ("tiny", "llama-Q4_K", "qwen2-text")


def _param(name: str) -> object:
    return name if name in QUICK else pytest.param(name, marks=pytest.mark.slow)


@pytest.fixture(params=[_param(name) for name in sorted(WORLDS)], scope="module")
def world(request: pytest.FixtureRequest) -> World:
    return shared_world(request.param)

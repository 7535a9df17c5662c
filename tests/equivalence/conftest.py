from __future__ import annotations

import pytest

from tests.equivalence.grid import WORLDS, World, shared_world


@pytest.fixture(params=sorted(WORLDS), scope="module")
def world(request: pytest.FixtureRequest) -> World:
    return shared_world(request.param)

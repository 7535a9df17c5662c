from __future__ import annotations

import pytest

from tests.equivalence.grid import WORLDS, World


@pytest.fixture(params=sorted(WORLDS), scope="module")
def world(request: pytest.FixtureRequest) -> World:
    return WORLDS[request.param]()

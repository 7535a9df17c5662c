"""What some tests need and not every machine has: a browser, a compiler and an emulator for ARM.

`make test` fetches it (equip.py). Where it cannot, those tests skip, and the end of the run says so; in CI
(CI=true) they fail.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

ROOT = Path(__file__).parents[2]
NOT_TESTED = "not tested: "  # the reason of such a skip begins so


def not_tested(what: str, reason: str) -> NoReturn:
    """Skips the test, or fails it in CI. reason: what is missing, and how to get it."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what}: {reason}", pytrace=False)
    pytest.skip(f"{NOT_TESTED}{what}: {reason}")


def first_program(*names: str) -> str | None:
    """The path of the first of these programs that the machine has."""
    return next((path for name in names if (path := shutil.which(name))), None)

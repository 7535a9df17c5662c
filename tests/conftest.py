"""What tests measure is printed at the end of the run, passed or not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Report = Callable[[str], None]
_NAME = "measured"


@pytest.fixture
def report(record_property: Callable[[str, object], None]) -> Report:
    """Takes lines for the end of the run; they travel from the workers of a parallel run, too."""
    return lambda line: record_property(_NAME, line)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests marked `long` run only where -m names them."""
    if "long" in config.getoption("-m"):
        return
    long = [item for item in items if item.get_closest_marker("long")]
    config.hook.pytest_deselected(items=long)
    items[:] = [item for item in items if not item.get_closest_marker("long")]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    lines = [
        f"{result.nodeid.rpartition('/')[2]}: {value}"
        for outcome in ("passed", "failed")
        for result in terminalreporter.getreports(outcome)
        for name, value in result.user_properties
        if name == _NAME and result.when == "call"
    ]
    if lines:
        terminalreporter.section("measured")
        for line in sorted(lines):
            terminalreporter.write_line(line)

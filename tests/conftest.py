"""Fixtures and options of all tests: what a test measures, what could not be tested, and `make proof`."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from tests.support.equipment import NOT_TESTED
from tests.support.proof import COMPARED, Proof, deselect

Report = Callable[[str], None]
Compared = Callable[[int], None]
_NAME = "measured"


@pytest.fixture
def report(record_property: Callable[[str, object], None]) -> Report:
    """Takes lines for the end of the run; they travel from the workers of a parallel run, too."""
    return lambda line: record_property(_NAME, line)


@pytest.fixture
def compared(record_property: Callable[[str, object], None]) -> Compared:
    """Takes the number of tokens that the test compared with plain decoding."""
    return lambda num_tokens: record_property(COMPARED, num_tokens)


def pytest_configure(config: pytest.Config) -> None:
    _keep_to_a_processor()
    if _names_proof(config):
        config.pluginmanager.register(Proof())


def _keep_to_a_processor() -> None:
    """Each worker of a parallel run (pytest -n) has a processor of its own, where the system lets it choose.

    The engine's threads wait for each other by looking again and again. Those of two workers on the same
    processors keep each other from working; on a processor of its own an engine takes one thread.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker and hasattr(os, "sched_setaffinity"):
        processors = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {processors[int(worker.removeprefix("gw")) % len(processors)]})


def _names_proof(config: pytest.Config) -> bool:
    return "proof" in config.getoption("-m").replace("not proof", "")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests marked `proof` run only where -m names them."""
    if not _names_proof(config):
        deselect(config, items, lambda item: item.get_closest_marker("proof") is not None)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    _print(terminalreporter, "measured", _measured(terminalreporter))
    _print(terminalreporter, "not tested", _not_tested(terminalreporter))


def _print(terminalreporter: pytest.TerminalReporter, title: str, lines: list[str]) -> None:
    if lines:
        terminalreporter.section(title)
        for line in lines:
            terminalreporter.write_line(line)


def _measured(terminalreporter: pytest.TerminalReporter) -> list[str]:
    """What tests measured, passed or not."""
    return sorted(
        f"{result.nodeid.rpartition('/')[2]}: {value}"
        for outcome in ("passed", "failed")
        for result in terminalreporter.getreports(outcome)
        for name, value in result.user_properties
        if name == _NAME and result.when == "call"
    )


def _not_tested(terminalreporter: pytest.TerminalReporter) -> list[str]:
    """What this machine lacks, and how to get it."""
    reasons = Counter(
        result.longrepr[2].partition(NOT_TESTED)[2]
        for result in terminalreporter.getreports("skipped")
        if isinstance(result.longrepr, tuple) and NOT_TESTED in result.longrepr[2]
    )
    return [f"{reason} (tests: {count})" for reason, count in sorted(reasons.items())]


@pytest.fixture(autouse=True, scope="session")
def _untuned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What `guessahead tune` saved on this machine must not decide what tests see."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GUESSAHEAD_TUNED", str(tmp_path_factory.mktemp("untuned") / "tuned.json"))
        yield

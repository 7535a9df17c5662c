"""`make proof`: the tests marked `proof`, each until it has passed once, in as many runs as that takes.

build/proof/SOURCES.jsonl has a line for each test that passed; SOURCES stands for the content of all files
that can change a result. A later run leaves those tests out, and its last lines are an entry for docs/log.md.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
from collections.abc import Callable, Iterator
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from tests.support.equipment import ROOT

COMPARED = "tokens compared"  # the name of a property of a test: how many
_FOLDERS = ("src", "native", "tests/support", "tests/equivalence")
_SUFFIXES = {".py", ".pyi", ".cpp", ".hpp", ".json", ".jsonl", ".txt"}


def _sources() -> Iterator[Path]:
    yield ROOT / "CMakeLists.txt"
    for folder in _FOLDERS:
        yield from sorted(path for path in (ROOT / folder).rglob("*") if path.suffix in _SUFFIXES)


def deselect(
    config: pytest.Config, items: list[pytest.Item], unwanted: Callable[[pytest.Item], bool]
) -> None:
    config.hook.pytest_deselected(items=[item for item in items if unwanted(item)])
    items[:] = [item for item in items if not unwanted(item)]


def best_isa() -> str:
    from guessahead import _native  # here, because all tests import this module, also those without it

    return _native.isas()[0]


class Proof:
    """What has passed on these sources and this instruction set; a plugin of pytest."""

    def __init__(self, folder: Path = ROOT / "build" / "proof") -> None:
        self._folder = folder
        self._num_failed = 0
        self._isa = os.environ.get("GUESSAHEAD_ISA") or best_isa()

    @cached_property
    def path(self) -> Path:
        state = hashlib.sha256(self._isa.encode())
        for source in _sources():
            state.update(
                f"{source.relative_to(ROOT)} {hashlib.sha256(source.read_bytes()).hexdigest()}".encode()
            )
        return self._folder / f"{state.hexdigest()[:16]}.jsonl"

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        passed = self.passed()
        deselect(config, items, lambda item: item.nodeid in passed)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._num_failed += report.failed
        if report.when == "call" and report.passed:
            self.add(report)

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Nothing left to run is no failure."""
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and self.passed():
            session.exitstatus = pytest.ExitCode.OK

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.passed() or self._num_failed:
            terminalreporter.section("for docs/log.md")
            terminalreporter.write_line(self.entry())

    def passed(self) -> dict[str, dict[str, Any]]:
        """By test. A line that an interrupted run left half written counts as none."""
        found = {}
        for line in self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else ():
            with contextlib.suppress(json.JSONDecodeError):
                entry = json.loads(line)
                found[entry["test"]] = entry
        return found

    def add(self, report: pytest.TestReport) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        properties = dict(report.user_properties)
        entry = {
            "test": report.nodeid,
            "seconds": round(report.duration, 1),
            COMPARED: properties.get(COMPARED, 0),
        }
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"\n{json.dumps(entry)}")  # the line before may be half a line

    def entry(self) -> str:
        """For docs/log.md."""
        passed = self.passed().values()
        num_tokens = sum(entry[COMPARED] for entry in passed)
        minutes = sum(entry["seconds"] for entry in passed) / 60
        return (
            f"- **`make proof`**, {date.today()}, {_processor()}, {self._isa}: {len(passed)} tests passed in "
            f"{minutes:.0f} minutes, {num_tokens:,} tokens compared with plain decoding and equal; "
            f"{self._num_failed} tests failed."
        )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{len(names)} cores of {names[0]}" if names else platform.machine()

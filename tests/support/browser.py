"""Which Chromium the report is tested in: the one of fetch_browser.py, or else the system's."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.equipment import ROOT, first_program

FETCHED = ROOT / "build" / "browser"


@dataclass(frozen=True)
class Browser:
    """A Chromium and the driver of its version. environment: of both."""

    program: str
    driver: str
    environment: dict[str, str]

    def problem(self) -> str | None:
        """Why it cannot be used; None if both programs start."""
        for command in (self.program, self.driver):
            done = subprocess.run(
                [command, "--version"], env=self.environment, capture_output=True, text=True, check=False
            )
            if done.returncode != 0:
                return f"{Path(command).name} does not start ({done.stderr.strip()})"
        return None


def find() -> tuple[Browser | None, str]:
    """The first one that starts; if none does, why."""
    problem: str | None = "there is no Chromium with its driver"
    for browser in _candidates():
        if (problem := browser.problem()) is None:
            return browser, ""
    assert problem is not None
    return None, problem


def _candidates() -> Iterator[Browser]:
    if (FETCHED / "chromium").exists() and importlib.util.find_spec("chromedriver_py"):
        from chromedriver_py import binary_path

        libraries = os.pathsep.join(filter(None, (str(FETCHED / "lib"), os.environ.get("LD_LIBRARY_PATH"))))
        own = {"LD_LIBRARY_PATH": libraries, "FONTCONFIG_FILE": str(FETCHED / "fonts.conf")}
        yield Browser(str(FETCHED / "chromium"), binary_path, os.environ | own)
    program = first_program("chromium", "chromium-browser", "google-chrome")
    driver = first_program("chromedriver")
    if program and driver:
        yield Browser(program, driver, dict(os.environ))

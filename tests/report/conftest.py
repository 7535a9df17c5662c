"""A real browser: Chromium without a window, on pages from files, with no network."""

from __future__ import annotations

import os
import subprocess
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.support.ui import WebDriverWait

from guessahead.report import Trace, render
from tests.support.equipment import ROOT, first_program, not_tested

_FETCHED = ROOT / "build" / "browser"
_WHAT = "the report in a real browser"
_REMEDY = "`make test` fetches one on x86-64 Linux; elsewhere: apt-get install chromium chromium-driver fonts-dejavu"


@dataclass(frozen=True)
class Browser:
    """A Chromium and the driver of its version. environment: of both."""

    program: str
    driver: str
    environment: dict[str, str]


def _fetched() -> Browser | None:
    """The one of tests/support/fetch_browser.py."""
    if not (_FETCHED / "chromium").exists():
        return None
    from chromedriver_py import binary_path

    libraries = os.pathsep.join(filter(None, (str(_FETCHED / "lib"), os.environ.get("LD_LIBRARY_PATH"))))
    environment = {"LD_LIBRARY_PATH": libraries, "FONTCONFIG_FILE": str(_FETCHED / "fonts.conf")}
    return Browser(str(_FETCHED / "chromium"), binary_path, os.environ | environment)


def _installed() -> Browser | None:
    program = first_program(("chromium", "chromium-browser", "google-chrome"))
    driver = first_program(("chromedriver",))
    return Browser(program, driver, dict(os.environ)) if program and driver else None


def _first_that_starts() -> Browser:
    problems = ["there is no Chromium with its driver"]
    for found in filter(None, (_fetched(), _installed())):
        for command in (found.program, found.driver):
            done = subprocess.run(
                [command, "--version"], env=found.environment, capture_output=True, text=True, check=False
            )
            if done.returncode != 0:
                problems.append(f"{command} does not start ({done.stderr.strip()})")
                break
        else:
            return found
    not_tested(_WHAT, f"{problems[-1]}; {_REMEDY}")


@pytest.fixture(scope="session")
def browser() -> Iterator[webdriver.Chrome]:
    found = _first_that_starts()
    options = webdriver.ChromeOptions()
    options.binary_location = found.program
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.add_argument("--window-size=1280,1000")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(found.driver, env=found.environment)
    driver = webdriver.Chrome(options=options, service=service)
    yield driver
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", ResourceWarning
        )  # selenium leaves the driver's pipes to the collector
        driver.quit()


@pytest.fixture
def open_page(browser: webdriver.Chrome, tmp_path: Path) -> Callable[..., webdriver.Chrome]:
    """Shows the report of the traces in the browser."""

    def show(*traces: Trace) -> webdriver.Chrome:
        path = tmp_path / "report.html"
        path.write_text(render(traces), encoding="utf-8")
        browser.get(path.as_uri())
        # The driver has been seen to go on while a long page was still read.
        complete = "return document.readyState === 'complete'"
        WebDriverWait(browser, 20).until(lambda _: browser.execute_script(complete), "loaded")
        return browser

    return show

"""A real browser: Chromium without a window, on pages from files, with no network."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from selenium import webdriver

from guessahead.report import Trace, render

_NAMES = ("chromium", "chromium-browser", "google-chrome")


def _program(names: Sequence[str]) -> str:
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        pytest.fail(
            f"there is no {names[0]}: the report is tested in a real browser "
            "(Debian: apt-get install chromium chromium-driver fonts-dejavu)",
            pytrace=False,
        )
    return found


@pytest.fixture(scope="session")
def browser() -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = _program(_NAMES)
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.add_argument("--window-size=1280,1000")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(_program(["chromedriver"]))
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
        return browser

    return show

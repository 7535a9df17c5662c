"""A real browser: Chromium without a window, on pages from files, with no network."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.support.ui import WebDriverWait

from guessahead.report import Trace, render
from tests.support.browser import find
from tests.support.equipment import not_tested

_REMEDY = "`make test` fetches it on x86-64 Linux; or: apt-get install chromium chromium-driver fonts-dejavu"


@pytest.fixture(scope="session")
def browser() -> Iterator[webdriver.Chrome]:
    found, problem = find()
    if found is None:
        not_tested("the report in a real browser", f"{problem}; {_REMEDY}")
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

"""Reports to look at in the browser, and what a reader does with the page."""

from __future__ import annotations

from collections.abc import Callable

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

from guessahead.report import Trace
from tests.report.documents import Made, trace

OpenPage = Callable[..., webdriver.Chrome]
STATS = {
    "accepted_lengths": [1, 0, 1],
    "tested_at": [2, 2],
    "accepted_at": [1, 1],
    "propose_seconds": 0.002,
    "forward_seconds": 0.016,
    "rest_seconds": 0.002,
}


def story() -> Trace:
    """Prompt; `The`; three guesses, two right; a tree of two drafters."""
    return trace(
        ["The", " quick", " brown", " fox", " dog", "!", "\n", " cat"],
        [
            Made([], [], [0]),
            Made([1, 2, 3], [0, 1], [1, 2, 4], why={"members": [{"drafter": "looker", "decision": "asked"}]}),
            Made([3, 7, 5], [1, 2], [7, 5, 6], [-1, -1, 1], ["looker", "other", "other"], "bonus"),
        ],
        stats=STATS,
        comparison={"plain_tokens_per_second": 100.0},
    )


def long(num_tokens: int) -> Trace:
    """A text of words in lines, half of it guessed."""
    pieces = [" word", "\n", " and"]
    steps = [Made([], [], [0])]
    while 1 + 4 * (len(steps) - 1) < num_tokens:
        last = 1 if len(steps) % 5 == 0 else 2
        steps.append(Made([0, 2, 0], [0, 1], [0, 2, last, last]))
    return trace(pieces, steps, stats=STATS)


def tokens(page: webdriver.Chrome) -> list[WebElement]:
    return page.find_elements(By.CSS_SELECTOR, ".text .t")


def panel(page: webdriver.Chrome) -> str:
    return page.find_element(By.ID, "detail").text


def wait(page: webdriver.Chrome, *words: str) -> None:
    """Until the panel says all of it."""
    WebDriverWait(page, 20).until(lambda _: all(word in panel(page) for word in words), str(words))


def emulate(page: webdriver.Chrome, *, scheme: str = "light", media: str = "") -> None:
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})


def resize(page: webdriver.Chrome, width: int) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def colour(page: webdriver.Chrome, selector: str, name: str) -> str:
    found: str = page.find_element(By.CSS_SELECTOR, selector).value_of_css_property(name)
    return found

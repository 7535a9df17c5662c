"""The page as text: self-contained, escaped, and telling what the trace tells."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html import unescape
from html.parser import HTMLParser

import pytest

from guessahead.errors import ParameterError
from guessahead.report import Trace, render
from guessahead.report.tokens import shown_tokens, spell, style_of
from tests.report.documents import Made, document, trace

HOSTILE = [
    "</script><script>document.title='owned'</script>",
    "<!--",
    "<img src=x onerror=alert(1)>",
    "\"'&amp;]]>",
    "\u2028\u2029",
    "\x00\x1b[31m\r",
    "</div></span>",
]


def hostile_trace() -> Trace:
    steps = [Made([], [], [0])]
    steps += [Made([index, index], [0], [index, index]) for index in range(len(HOSTILE))]
    made = document(HOSTILE, steps, prompt=range(len(HOSTILE)), drafter="<b>looker</b>")
    made["drafter"] = "<b>x</b>"
    from guessahead.report import parse_trace

    return parse_trace(made, "</title><script>")


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))


def tags(page: str) -> list[tuple[str, dict[str, str | None]]]:
    parser = Tags()
    parser.feed(page)
    return parser.seen


def test_hostile_tokens_stay_text() -> None:
    page = render([hostile_trace()])
    assert [tag for tag, _ in tags(page)].count("script") == 2
    assert page.count("</script>") == 2
    assert not [tag for tag, _ in tags(page) if tag in ("img", "b")]
    assert "<!--" not in page
    assert "\x00" not in page
    assert "\x1b" not in page
    assert "\r" not in page


def test_the_data_survives_the_escaping() -> None:
    page = render([hostile_trace()])
    [data] = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    texts = json.loads(data)[0]["texts"]
    assert texts[:4] == HOSTILE[:4]


def test_the_policy_names_the_style_and_the_script_by_hash() -> None:
    page = render([hostile_trace()])
    policy = next(attrs["content"] for tag, attrs in tags(page) if tag == "meta" and "http-equiv" in attrs)
    assert policy is not None
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    [style] = re.findall(r"<style>(.*?)</style>", page, re.S)
    [script] = re.findall(r"<script>(.*?)</script>", page, re.S)
    for kind, text in (("style", style), ("script", script)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy


def test_nothing_points_outside() -> None:
    page = render([hostile_trace()])
    for tag, attrs in tags(page):
        assert not {"src", "href", "style", "srcset", "action"} & attrs.keys(), tag
        assert not [name for name in attrs if name.startswith("on")]
    assert not re.search(r"https?://|@import|url\(", page)


def test_the_text_is_all_there() -> None:
    pieces = ["once", " upon", " a", " time", "\n"]
    page = render([trace(pieces, [Made([], [], [0]), Made([1, 2, 0], [0, 1], [1, 2, 3, 4])])])
    [text] = re.findall(r'<div class="text".*?>(.*?)</div></div>', page, re.S)
    assert unescape(re.sub("<.*?>", "", text)) == "once upon a time\n"


def test_a_character_of_several_tokens_belongs_to_the_last() -> None:
    made = trace(["x", "🦊".encode()[:2], "🦊".encode()[2:], b"\xff"], [Made([], [], [0, 1, 2, 3, 0])])
    shown = [each.text for each in shown_tokens(made, [0, 1, 2, 3, 0])]
    assert shown == ["x", "", "🦊", "\ufffd", "x"]
    assert spell(made, 1) == "‹f0 9f›"


def test_more_drafters_than_styles() -> None:
    names = [f"g{index}" for index in range(7)]
    assert {style_of(name, names) for name in names} == {"g0", "g1", "g2", "g3", "g4"}
    assert style_of("target", names) == "m"


def test_a_guesser_looks_the_same_in_every_trace() -> None:
    first = trace(["a", "b"], [Made([], [], [0]), Made([0, 0], [0, 1], [0, 0, 1], origins=["one", "two"])])
    second = trace(["a", "b"], [Made([], [], [0]), Made([0], [0], [0, 1], origins=["two"])])
    page = render([first, second])
    assert page.count('<span class="t g1">Abc</span> guessed by two') == 2
    assert page.count('<span class="t g0">Abc</span> guessed by one') == 1
    assert page.count('<span class="t g1">a</span>') == 2


def test_figures() -> None:
    stats = {"alpha": 0.5, "tau": 1.52, "num_passes": 60, "num_sweeps_saved": 31, "gb_per_second": 5.1}
    comparison = {"ratio": 1.46, "predicted_ratio": 1.53, "identical": True, "c": 0.01, "v": 1.04}
    plain = {"tokens_per_second": 53.8, "gb_per_second": 5.25}
    page = render(
        [
            trace(
                ["a"],
                [Made([], [], [0])],
                stats=stats,
                comparison=comparison,
                plain=plain,
                predicted_tau=1.58,
            ),
            trace(["a"], [Made([], [], [0])], stats={"alpha": "broken", "tau": None}),
        ]
    )
    rows = {
        re.sub("<.*", "", head): re.findall("<td>(.*?)</td>", cells)
        for head, cells in re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', page)
    }
    assert rows["alpha"] == ["0.50", "–"]
    assert rows["tau"] == ["1.52 measured, 1.58 predicted", "–"]
    assert rows["speed-up"] == ["1.46 measured, 1.53 predicted", "–"]
    assert rows["passes saved"] == ["31 of 91", "–"]
    assert rows["plain decoding"] == ["53.8 tokens/s", "–"]
    assert rows["memory"] == ["5.1 GB/s", "–"]
    assert rows["same text"] == ["yes, to the last token", "–"]


def test_histogram_and_positions() -> None:
    stats = {"accepted_lengths": [4, 0, 2], "tested_at": [6, 2], "accepted_at": [2, 1]}
    page = render([trace(["a"], [Made([], [], [0])], stats=stats)])
    assert '<th scope="row">2</th><td>2</td><td class="bar"><svg' in page
    assert 'width="50.0"' in page  # two of four steps, and one of two guesses
    assert "33% of 6" in page
    assert "50% of 2" in page


def test_long_drafts_are_summed_up() -> None:
    stats = {"accepted_lengths": [1] * 25, "tested_at": [4] * 24, "accepted_at": [1] * 24}
    page = render([trace(["a"], [Made([], [], [0])], stats=stats)])
    for label, text in (("8", "1"), ("9 to 16", "8"), ("17 to 24", "8")):
        assert f'<th scope="row">{label}</th><td>{text}</td>' in page
    for label, text in (
        ("guess 8", "25% of 4"),
        ("guess 9 to 16", "25% of 32"),
        ("guess 17 to 24", "25% of 32"),
    ):
        assert f'<th scope="row">{label}</th><td>{text}</td>' in page


def test_no_trace_is_refused() -> None:
    with pytest.raises(ParameterError, match="at least one"):
        render([])

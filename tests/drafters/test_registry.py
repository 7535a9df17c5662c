from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import EntryPoint, EntryPoints
from typing import Any, ClassVar

import pytest

from guessahead.drafters import registry
from guessahead.drafters.base import Drafter, DrafterResources
from guessahead.errors import ParameterError
from tests.support.fake_head import FakeHead
from tests.support.fakes import TinyEngine

SETUP = DrafterResources(
    TinyEngine(), at_precision=lambda _: TinyEngine(), head=lambda _: FakeHead(TinyEngine())
)  # type: ignore[arg-type, return-value]
PAIR = DrafterResources(TinyEngine(), TinyEngine())  # type: ignore[arg-type]


@dataclass(frozen=True)
class Settings:
    count: int = 1
    share: float = 0.5
    fast: bool = False
    label: str = ""


class Foreign(Drafter):
    name: ClassVar[str] = "foreign"
    Options: ClassVar[type] = Settings

    def __init__(self, options: Settings, setup: DrafterResources) -> None:
        self.options = options


@pytest.fixture
def foreign(monkeypatch: pytest.MonkeyPatch) -> None:
    points = EntryPoints(
        [
            EntryPoint("foreign", "tests.drafters.test_registry:Foreign", registry.GROUP),
            EntryPoint("no-drafter", "tests.drafters.test_registry:Settings", registry.GROUP),
        ]
    )
    monkeypatch.setattr(registry, "entry_points", lambda **wanted: points.select(**wanted))


def test_every_name_makes_a_drafter_of_that_name() -> None:
    assert set(registry.names()) >= {"none", "prompt-lookup", "draft-model"}
    assert list(registry.names()) == sorted(registry.names())
    for name in registry.names():
        setup = PAIR if registry.find(name).needs_draft_engine else SETUP
        assert registry.make(name, {}, setup).name == name


def test_an_unknown_name_lists_the_known_ones() -> None:
    assert {"none", "prompt-lookup"} < set(registry.names())
    with pytest.raises(ParameterError, match=f"'medusa'; known: {', '.join(registry.names())}$"):
        registry.make("medusa", {}, SETUP)


def test_nothing_is_imported_before_it_is_asked_for() -> None:
    code = (
        "import sys; from guessahead.drafters import registry; registry.names();"
        "bad = [m for m in sys.modules if m.endswith(('prompt_lookup', 'draft_model', 'drafters.none'))];"
        "assert not bad, bad; registry.find('none'); assert 'guessahead.drafters.none' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.usefixtures("foreign")
def test_entry_points_join_in() -> None:
    assert "foreign" in registry.names()
    assert isinstance(registry.make("foreign", {}, SETUP), Foreign)
    with pytest.raises(ParameterError, match="'no-drafter' is not a"):
        registry.make("no-drafter", {}, SETUP)


@pytest.mark.usefixtures("foreign")
def test_options_are_read_from_text() -> None:
    given: dict[str, Any] = {"count": "8", "share": "0.25", "fast": "true", "label": "x"}
    made = registry.make("foreign", given, SETUP)
    assert isinstance(made, Foreign)
    assert made.options == Settings(8, 0.25, True, "x")
    made = registry.make("foreign", {"count": 8.0, "share": 1, "fast": 0}, SETUP)
    assert isinstance(made, Foreign)
    assert made.options == Settings(8, 1.0, False)
    assert type(made.options.count) is int


@pytest.mark.usefixtures("foreign")
@pytest.mark.parametrize(
    ("option", "value", "problem"),
    [
        ("count", "many", "must be a whole number, not 'many'"),
        ("count", 2.5, "must be a whole number, not 2.5"),
        ("count", float("inf"), "must be a whole number"),
        ("share", "half", "must be a number, not 'half'"),
        ("fast", "maybe", "must be true or false, not 'maybe'"),
        ("cuont", 1, "has no option 'cuont'; known: count, fast, label, share"),
    ],
)
def test_wrong_options_are_refused(option: str, value: Any, problem: str) -> None:
    with pytest.raises(ParameterError, match=problem):
        registry.make("foreign", {option: value}, SETUP)


def test_a_drafter_without_options_says_so() -> None:
    with pytest.raises(ParameterError, match="'none' has no option 'x'; it has none"):
        registry.make("none", {"x": 1}, SETUP)


@pytest.mark.parametrize(("least", "most"), [(0, 3), (4, 3), (-1, -1)])
def test_option_ranges_are_checked(least: int, most: int) -> None:
    with pytest.raises(ParameterError, match="min_ngram"):
        registry.make("prompt-lookup", {"min_ngram": least, "max_ngram": most}, SETUP)


@pytest.mark.parametrize(
    "setup", [DrafterResources(TinyEngine()), DrafterResources(TinyEngine(), head=lambda _: None)]
)  # type: ignore[arg-type]
def test_a_head_is_needed(setup: DrafterResources) -> None:
    with pytest.raises(ParameterError, match=r"this model has no draft head; `guessahead train` makes one"):
        registry.make("head", {}, setup)


@pytest.mark.parametrize("option", ["branches", "width"])
@pytest.mark.parametrize("value", [0, 9])
def test_the_tree_of_a_head_is_small(option: str, value: int) -> None:
    with pytest.raises(ParameterError, match=f"{option} must be from 1 to 8, not {value}"):
        registry.make("head", {option: value}, SETUP)


def test_a_second_model_is_needed_or_useless() -> None:
    with pytest.raises(ParameterError, match="'draft-model' needs a second model"):
        registry.make("draft-model", {}, SETUP)
    with pytest.raises(ParameterError, match="'none' cannot use a draft model"):
        registry.make("none", {}, PAIR)

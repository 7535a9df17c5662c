"""The pages agree with the code, with each other, and build into a site without a network."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

import guessahead
from guessahead.drafters import registry
from guessahead.measure.formulas import predict_speedup, predict_tau
from tests.docs.blocks import DOCS

ROOT = DOCS.parent


def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, DOCS / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def test_the_command_line_page_is_up_to_date() -> None:
    made: str = tool("cli_reference").page()
    assert read("cli.md") == made, "run `python docs/tools/cli_reference.py` (or `make docs`)"


def test_every_public_name_has_an_entry() -> None:
    page: str = tool("api_reference").page()
    for name in guessahead.__all__:
        assert name == "__version__" or f"{{#guessahead.{name}}}" in page, name
    assert "max_tokens: int = 256" in page  # of the documented keyword arguments
    assert "dataclasses._" not in page


def test_every_drafter_is_on_the_page_about_choosing() -> None:
    page = read("choosing-a-drafter.md")
    for name in registry.names():
        assert f"| `{name}`" in page or f", `{name}` |" in page, name


def test_the_published_table_is_recomputed() -> None:
    _, _, rest = read("predicting.md").partition("<!-- t5 -->")
    table, _, _ = rest.partition("<!-- /t5 -->")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.strip().splitlines()[2:]]
    assert len(rows) == 12
    for _, _, _, gamma, alpha, c, tau, formula, _ in rows:
        assert tau == f"{predict_tau(float(alpha), int(gamma)):.2f}"
        assert formula == f"{predict_speedup(float(alpha), int(gamma), float(c), 1.0):.2f}"


def test_links_between_pages_lead_somewhere() -> None:
    for page in DOCS.glob("*.md"):
        for target in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
            assert target == "api.md" or (DOCS / target).exists(), f"{page.name}: {target}"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from mkdocs.commands import build
    from mkdocs.config import load_config

    folder = tmp_path_factory.mktemp("site")
    config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder))
    build.build(config)  # strict: a broken link or anchor fails
    return folder


def test_the_site_has_every_page(site: Path) -> None:
    for page in [*DOCS.glob("*.md"), Path("api.md")]:
        assert (site / page.with_suffix(".html").name).exists(), page
    assert "class guessahead.Draft(" in (site / "api.html").read_text(encoding="utf-8")


def test_the_site_needs_no_network(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r"<(?:script|img|iframe)[^>]*\ssrc=\"([^\"]+)\"", text)
        loaded += re.findall(r"<link[^>]*\shref=\"([^\"]+)\"", text)
        assert not [target for target in loaded if re.match(r"(https?:)?//", target)], page.name
    assert not list(site.rglob("*.py"))

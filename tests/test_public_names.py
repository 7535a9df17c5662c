from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import guessahead as ga

SOURCE = Path(ga.__file__).read_text(encoding="utf-8")


def test_all_is_sorted_and_complete() -> None:
    assert list(ga.__all__) == sorted(ga.__all__)
    assert set(ga.__all__) == {*ga._HOMES, "__version__"}
    assert dir(ga) == ga.__all__


def test_type_checkers_see_the_same_names() -> None:
    imported: dict[str, str] = {}
    for node in ast.walk(ast.parse(SOURCE)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("guessahead."):
            imported.update(
                {alias.name: (node.module or "").removeprefix("guessahead.") for alias in node.names}
            )
    assert imported == ga._HOMES


@pytest.mark.parametrize("name", [name for name in ga.__all__ if name != "__version__"])
def test_every_name_resolves(name: str) -> None:
    assert getattr(ga, name).__name__ == name


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'speculate'"):
        ga.speculate  # noqa: B018


def test_importing_is_light() -> None:
    code = (
        "import sys; before = set(sys.modules); import guessahead;"
        "new = {m.split('.')[0] for m in set(sys.modules) - before};"
        "assert not new & {'numpy', 'tokenizers', 'jinja2', 'click', 'rich'}, new;"
        "assert [m for m in sys.modules if m.startswith('guessahead.')] == []"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

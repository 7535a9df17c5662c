"""_native.pyi, by which the Python side is type-checked, names what the module has."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from nanobind.stubgen import StubGen

import guessahead
from guessahead import _native


def described(source: str) -> dict[str, list[str]]:
    """Public functions, methods and properties of a stub, with their arguments; variables have none."""
    found: dict[str, list[str]] = {}

    def visit(nodes: list[ast.stmt], prefix: str) -> None:
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                found[prefix + node.name] = []
                visit(node.body, f"{prefix}{node.name}.")
            elif isinstance(node, ast.FunctionDef):
                found[prefix + node.name] = arguments(node.args)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found[prefix + node.target.id] = []

    visit(ast.parse(source).body, "")
    return {name: args for name, args in found.items() if not name.startswith("_")}


def arguments(args: ast.arguments) -> list[str]:
    """Names, with "=" where there is a default; arguments without a name in the module are "_"."""
    unnamed = ["_"] * len([each for each in args.posonlyargs if each.arg != "self"])
    named = [each.arg for each in args.args if each.arg != "self"]
    without = len(named) - len(args.defaults)
    return [*unnamed, *(name + "=" * (i >= without) for i, name in enumerate(named)), *keywords(args)]


def keywords(args: ast.arguments) -> list[str]:
    pairs = zip(args.kwonlyargs, args.kw_defaults, strict=True)
    return ["*" + each.arg + "=" * (default is not None) for each, default in pairs]


@pytest.fixture(scope="module")
def stub() -> dict[str, list[str]]:
    return described((Path(guessahead.__file__).parent / "_native.pyi").read_text(encoding="utf-8"))


def test_the_stub_describes_the_module(stub: dict[str, list[str]]) -> None:
    generator = StubGen(_native)
    generator.put(_native)
    assert stub == described(generator.get())


def test_the_comparison_sees_arguments(stub: dict[str, list[str]]) -> None:
    """Among others, so that an empty description cannot pass."""
    assert stub["isa"] == ["wanted="]
    assert stub["Sequence.keep"] == ["_"]
    assert stub["Plan.buffer"] == ["width", "quantised=", "compact="]
    assert "*temperature" in stub["Chooser.__init__"]

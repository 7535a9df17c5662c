"""The layout holds: which folder may import which, how many modules lie where, and how long they are."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "guessahead"
# Each line may import the lines above it, and itself. A name stands for a folder or a module of the package;
# the longest one that fits counts. (docs/reading-the-code.md)
ORDER = (
    ("errors", "files", "data"),
    ("types", "protocols"),
    ("core",),
    ("checkpoints", "text", "grammar"),
    ("heads",),
    ("engines",),
    ("models", "drafters"),
    ("controller",),
    ("runners",),
    ("options", "model"),
    ("measure", "training"),
    ("report",),
    ("cli",),
    ("", "__main__"),
)
LEVEL = {name: level for level, names in enumerate(ORDER) for name in names}
# The compiled module: its engine, and, inside functions, fast paths of drafters and what measures kernels.
NATIVE_AT_IMPORT = ("engines.native", "measure.bench.kernels", "measure.bench.passes", "measure.bench.peaks")
NATIVE_IN_FUNCTIONS = ("drafters", "cli.bench_common", "cli.bench_kernels")
# The rest of the package uses these folders through their `__init__` only.
SEALED = ("text.safe_template",)
MOST_MODULES, MOST_LINES, MOST_FOLDERS, MOST_FLOORS = 8, 300, 25, 12
TYPES_OF_ABOVE = {("types.requests", "core.stats")}  # what a Generation holds
EXTRA_TESTS = {"equivalence", "distribution", "fuzz", "support", "reference", "native", "docs"}


@dataclass(frozen=True)
class Import:
    """By: the importing module; what: the imported module or folder, "" = the package itself."""

    by: str
    what: str
    for_types: bool
    in_function: bool


def modules() -> dict[str, Path]:
    """Dotted name below the package -> file."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(by: str, path: Path, known: dict[str, Path]) -> Iterator[Import]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for inner in ast.walk(node)
    }
    in_function = {
        id(inner) for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "guessahead":
            base = (node.module or "").removeprefix("guessahead").removeprefix(".")
            inside = [f"{base}.{each.name}".removeprefix(".") for each in node.names]
            names = [name if name in known or name == "_native" else base for name in inside]
        elif isinstance(node, ast.Import):
            names = [
                each.name.removeprefix("guessahead.") for each in node.names if "guessahead." in each.name
            ]
        for name in names:
            yield Import(by, name, id(node) in for_types, id(node) in in_function)


def all_imports() -> list[Import]:
    known = modules()
    return [each for name, path in known.items() for each in imports(name, path, known)]


def level(module: str) -> int:
    parts = module.split(".")
    for end in range(len(parts), 0, -1):
        if (name := ".".join(parts[:end])) in LEVEL:
            return LEVEL[name]
    return LEVEL[""]


def is_below(module: str, folders: tuple[str, ...]) -> bool:
    return any(module == folder or module.startswith(f"{folder}.") for folder in folders)


def test_nothing_imports_what_lies_above_it() -> None:
    """But names of the package itself (its version), and types, for the type checker."""
    found = [
        f"{each.by} imports {each.what or 'the package'}"
        for each in all_imports()
        if each.what not in ("", "_native") and not each.for_types and level(each.what) > level(each.by)
    ]
    assert found == []


def test_types_of_a_higher_layer_are_few() -> None:
    found = {
        (each.by, each.what)
        for each in all_imports()
        if each.for_types and each.what not in ("", "_native") and level(each.what) > level(each.by)
    }
    assert found == TYPES_OF_ABOVE


def test_the_compiled_module_is_imported_by_its_engine_only() -> None:
    for each in all_imports():
        if each.what != "_native" or each.for_types or is_below(each.by, NATIVE_AT_IMPORT):
            continue
        assert each.in_function, f"{each.by} imports the compiled module when it is imported"
        assert is_below(each.by, NATIVE_IN_FUNCTIONS), each.by


def test_sealed_folders_have_one_entrance() -> None:
    used = {
        each.what for each in all_imports() if not is_below(each.by, SEALED) and is_below(each.what, SEALED)
    }
    assert used == set(SEALED)


def test_there_are_no_circles() -> None:
    """Between modules, types included: what names each other lives together."""
    graph: dict[str, set[str]] = {}
    for each in all_imports():
        if each.what not in ("", "_native", each.by):
            graph.setdefault(each.by, set()).add(each.what)
    done: set[str] = set()

    def visit(module: str, above: tuple[str, ...]) -> None:
        assert module not in above, f"a circle: {' -> '.join((*above, module))}"
        if module in done:
            return
        for below in sorted(graph.get(module, ())):
            visit(below, (*above, module))
        done.add(module)

    for module in sorted(graph):
        visit(module, ())


def test_floors_are_few() -> None:
    """A folder, or a module of the package itself, stands one floor above the highest that it imports."""
    below: dict[str, set[str]] = {}
    for each in all_imports():
        by, what = folder_of(each.by), folder_of(each.what)
        if each.what not in ("", "_native") and by != what and (each.by, each.what) not in TYPES_OF_ABOVE:
            below.setdefault(by, set()).add(what)

    @cache
    def floor(folder: str) -> int:
        return 1 + max((floor(each) for each in below.get(folder, ())), default=0)

    assert max(map(floor, below)) <= MOST_FLOORS


def folder_of(module: str) -> str:
    """A module of the package itself stands for itself."""
    is_folder = (PACKAGE / module.replace(".", "/")).is_dir()
    return module if is_folder or "." not in module else module.rpartition(".")[0]


def test_the_package_shows_its_architecture() -> None:
    assert len(list(PACKAGE.glob("*.py"))) <= MOST_MODULES
    folders = [path.parent for path in PACKAGE.rglob("__init__.py")]
    assert len(folders) <= MOST_FOLDERS
    for folder in folders:
        docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8")))
        assert docstring, f"{folder} does not say what lives there"


def sources() -> list[Path]:
    native = [path for kind in ("*.cpp", "*.hpp") for path in (ROOT / "native").rglob(kind)]
    return [*PACKAGE.rglob("*.py"), *(ROOT / "tests").rglob("*.py"), *native]


def test_files_have_one_job() -> None:
    long = {str(path.relative_to(ROOT)) for path in sources() if _num_lines(path) > MOST_LINES}
    assert long == set()


def _num_lines(path: Path) -> int:
    return path.read_text(encoding="utf-8").count("\n")


@pytest.mark.parametrize("folder", sorted(path.name for path in (ROOT / "tests").iterdir() if path.is_dir()))
def test_tests_mirror_the_package(folder: str) -> None:
    if not folder.startswith(("_", ".")):
        assert folder in EXTRA_TESTS or (PACKAGE / folder).is_dir()

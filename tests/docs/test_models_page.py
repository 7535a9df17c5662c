"""The page about formats and architectures says what the engine can do."""

from __future__ import annotations

import re

import numpy as np

from guessahead import _native
from guessahead.checkpoints.gguf import CONVERTIBLE, GGMLType
from guessahead.engines.native.architectures import ARCHITECTURES
from tests.docs.blocks import DOCS

POOL = _native.Pool(1)


def part(name: str) -> str:
    """What stands between two comments of the page."""
    _, _, rest = (DOCS / "models.md").read_text(encoding="utf-8").partition(f"<!-- {name} -->")
    found, end, _ = rest.partition(f"<!-- /{name} -->")
    assert end
    return found


def rows(name: str) -> list[list[str]]:
    lines = part(name).strip().splitlines()[2:]
    return [[cell.strip().strip("`") for cell in line.split("|")[1:-1]] for line in lines]


def test_every_format_is_in_the_table_with_its_size() -> None:
    table = rows("formats")
    assert sorted(row[0] for row in table) == sorted(_native.FORMATS)
    for name, in_file, in_memory, _ in table:
        kind = GGMLType[name]
        assert float(in_file) == 8 * kind.block_bytes / kind.block_size, name
        data = np.zeros(8 * kind.row_bytes(256), np.uint8)
        packed = _native.Matrix.pack(POOL, name, 8, 256, data)
        assert float(in_memory) == 8 * packed.num_bytes / (8 * 256), name


def test_what_is_refused_is_listed() -> None:
    quantised = {kind.name for kind in GGMLType if kind.block_size > 1}
    assert set(re.findall(r"`(\w+)`", part("refused"))) == quantised - set(_native.FORMATS)
    assert {kind.name for kind in CONVERTIBLE} == set(_native.FORMATS)


def test_every_architecture_is_in_the_table() -> None:
    assert [row[0] for row in rows("architectures")] == list(ARCHITECTURES)

"""Every name in a document is described in benchmarks/README.md."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.measure.bench.conftest import Bench, run
from tests.support.tiny import TinyModel

README = Path(__file__).parents[3] / "benchmarks" / "README.md"
# Names that are data: kinds of operations in a profile, packages.
OPEN = {"packages", "ms"}
ISSUE = {
    "drafters": "prompt_id category drafter num_tokens tokens_per_second ratio_to_plain alpha tau identical",
    "kernels": "format activations k n rows ms ratio_to_1 gb_per_s gmac_per_s bit_identical",
    "passes": "rows context ms v roofline_ms",
}


def names(value: Any) -> set[str]:
    """All keys of a document."""
    if isinstance(value, list):
        return set().union(*map(names, value))
    if not isinstance(value, dict):
        return set()
    return set(value).union(*(names(part) for key, part in value.items() if key not in OPEN))


def described(*sections: str) -> set[str]:
    """What stands in backquotes in these sections."""
    parts = re.split(r"^## ", README.read_text(encoding="utf-8"), flags=re.M)
    text = "".join(part for part in parts if part.splitlines()[0].strip("`") in sections)
    return set(re.findall(r"`([a-z0-9_]+)`", text))


@pytest.mark.parametrize("kind", ISSUE)
def test_names(kind: str, bench: Bench, tiny: TinyModel) -> None:
    if kind == "drafters":
        document = bench("--drafters", "prompt-lookup", "--only", "loop")[1]
        section = "guessahead bench"
    else:
        section = f"guessahead bench {kind}"
        arguments = {
            "kernels": ("--formats", "Q4_1,Q6_K", "--shapes", "64x16", "--rows", "1", "--repeat", "1"),
            "passes": ("-m", str(tiny.path), "--contexts", "40", "--rows", "1,8", "--repeat", "1"),
        }
        document = json.loads(run("bench", kind, *arguments[kind]).stdout)
    assert document["benchmark"] == kind
    assert set(ISSUE[kind].split()) <= set(document["rows"][0])
    shared = described("What every document holds")
    undescribed = names(document) - shared - described(section) - {"rows"}
    assert not undescribed


def test_described_names_exist(bench: Bench) -> None:
    """The other way round: the table of rows names nothing that is not there."""
    row = bench("--drafters", "prompt-lookup", "--only", "loop")[1]["rows"][0]
    table = re.search(r"\| name \| meaning \|\n((?:\|.*\n)+)", README.read_text(encoding="utf-8"))
    assert table is not None
    first_cells = [line.split("|")[1] for line in table.group(1).splitlines()[1:]]
    assert {name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)} == set(row)

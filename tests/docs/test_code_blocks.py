"""Every code block of the pages runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.blocks import NOT_RUN, RUN, blocks, pages, run

WITH_CODE = [page for page in pages() if any(block.language in RUN for block in blocks(page))]


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_no_block_escapes_for_want_of_a_language_we_know(page: Path) -> None:
    for block in blocks(page):
        assert block.language in (*RUN, *NOT_RUN), f"{page.name}, line {block.line}"


@pytest.mark.model
@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.name)
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    for block in blocks(page):
        if block.language not in RUN:
            continue
        done = run(block, tmp_path)
        assert done is None or done.returncode == 0, f"{page.name}, line {block.line}:\n{done.stderr}"


def test_a_failing_block_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nassert 1 == 2\n```\n\n```sh\nfalse\ntrue\n```\n")
    for block in blocks(page):
        done = run(block, tmp_path)
        assert done is not None
        assert done.returncode == 1

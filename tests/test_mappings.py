"""File systems that cannot map files: a private mapping, else the file is read."""

from __future__ import annotations

import errno
import mmap
from pathlib import Path
from typing import Any

import pytest

import guessahead as ga
from guessahead import files
from guessahead.errors import ModelError
from tests.checkpoints.folders.making import write_folder
from tests.support.tiny import tiny_gguf
from tests.support.tiny_head import tiny_head

REAL = mmap.mmap


@pytest.fixture(params=["no shared ones", "none"])
def refused(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What the system refuses; the flags of what was asked for."""
    asked: list[int] = []

    def limited(file: int, num_bytes: int, **settings: Any) -> mmap.mmap:
        if file != -1:
            asked.append(settings["flags"])
            if settings["flags"] == mmap.MAP_SHARED or request.param == "none":
                raise OSError(errno.ENODEV, "No such device")
        return REAL(file, num_bytes, **settings)

    monkeypatch.setattr(mmap, "mmap", limited)
    return asked


def said(path: Path, **options: Any) -> tuple[int, ...]:
    return ga.load(path, threads=1).generate("hello", max_tokens=12, **options).token_ids


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_models(kind: str, tmp_path: Path, refused: list[int]) -> None:
    model = tiny_gguf(tmp_path / "m.gguf", format="F32")
    path = model.path if kind == "file" else write_folder(tmp_path / "folder", model)
    with pytest.MonkeyPatch.context() as usual:
        usual.setattr(mmap, "mmap", REAL)
        expected = said(path, drafter="none")
    del refused[:]
    assert said(path, drafter="none") == expected
    assert refused[:2] == [mmap.MAP_SHARED, mmap.MAP_PRIVATE]


def test_heads(tmp_path: Path, refused: list[int]) -> None:
    path = tiny_gguf(tmp_path / "m.gguf", format="Q8_0", layers=4, head_scale=5.0).path
    tiny_head(ga.load(path, threads=1).runner.engine, "Q8_0").save(tmp_path / "head")  # type: ignore[arg-type, attr-defined]
    del refused[:]
    options = {"drafter_options": {"path": str(tmp_path / "head")}, "gamma": 3}
    assert said(path, drafter="head", **options) == said(path, drafter="none")
    assert len(refused) == 6, "the model twice, and the head"


def test_a_file_that_is_cut_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: list[int]
) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(1000))
    monkeypatch.setattr(files, "_READ_BYTES", 100)
    with files.map_file(path, "test", 1) as mapped:
        assert bytes(mapped) == bytes(1000)
    if mmap.MAP_PRIVATE in refused:
        monkeypatch.setattr(files.os, "preadv", lambda file, places, offset: 0)
        with pytest.MonkeyPatch.context() as none:
            none.setattr(mmap, "mmap", _anonymous_only)
            with pytest.raises(ModelError, match="cut while it was read"):
                files.map_file(path, "test", 1)


def _anonymous_only(file: int, num_bytes: int, **settings: Any) -> mmap.mmap:
    if file != -1:
        raise OSError(errno.ENODEV, "No such device")
    return REAL(file, num_bytes)

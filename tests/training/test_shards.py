"""Shards: filled once, by whoever comes first, and never mixed."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guessahead.errors import ModelError
from guessahead.training.batch import Text
from guessahead.training.shards import Store, read
from tests.training.making import LAYERS, WIDTH, made_text


class Maker:
    """Makes texts, and counts."""

    def __init__(self) -> None:
        self.made: list[int] = []

    def __call__(self, number: int) -> list[Text]:
        self.made.append(number)
        return [made_text([number, 1, 2], [3, 4], number), made_text([5], [6, 7, 8], number)]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    store = Store(tmp_path / "new" / "folder", "a model")
    assert list(store.fill(1, Maker())) == [0]
    shard = read(store.path(0))
    assert shard.starts.tolist() == [0, 5, 9]
    assert shard.token_ids.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8]
    assert shard.answer.tolist() == [False] * 3 + [True] * 2 + [False] + [True] * 3
    texts = Maker()(0)
    for text, begin, end in ((texts[0], 0, 5), (texts[1], 5, 9)):
        hidden = shard.hidden[begin:end]
        assert hidden.shape == (end - begin, LAYERS, WIDTH)
        assert hidden[:-1].tobytes() == text.hidden.tobytes()
        assert not hidden[-1].any(), "the last token was never read"
    assert [path.name for path in (tmp_path / "new" / "folder").iterdir()] == ["shard-00000.safetensors"]


def test_what_is_there_is_not_made_again(tmp_path: Path) -> None:
    first, second = Maker(), Maker()
    assert list(Store(tmp_path, "a model").fill(2, first)) == [0, 1]
    before = Store(tmp_path, "a model").path(1).read_bytes()
    assert list(Store(tmp_path, "a model").fill(4, second)) == [0, 1, 2, 3]
    assert (first.made, second.made) == ([0, 1], [2, 3])
    assert Store(tmp_path, "a model").path(1).read_bytes() == before
    assert [path.name[6:11] for path in Store(tmp_path, "a model").present()] == [
        "00000",
        "00001",
        "00002",
        "00003",
    ]


def test_an_interrupted_shard_is_made_again(tmp_path: Path) -> None:
    def broken(number: int) -> list[Text]:
        raise KeyboardInterrupt

    store = Store(tmp_path, "a model")
    with pytest.raises(KeyboardInterrupt):
        list(store.fill(1, broken))
    assert list(tmp_path.iterdir()) == []
    assert list(store.fill(1, Maker())) == [0]


HOLDER = """
import fcntl, sys
claim = open(sys.argv[1], "a")
fcntl.flock(claim, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def test_a_shard_that_another_process_makes_is_left_to_it_until_it_ends(tmp_path: Path) -> None:
    store, maker = Store(tmp_path, "a model"), Maker()
    claim = store.path(1).with_suffix(".claim")
    arguments = [sys.executable, "-c", HOLDER, str(claim)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        assert list(store.fill(3, maker)) == [0, 2]
        assert claim.exists()
        other.kill()
    assert claim.exists(), "nobody has tidied up"
    assert list(store.fill(3, maker)) == [0, 1, 2]
    assert maker.made == [0, 2, 1]
    assert {path.suffix for path in tmp_path.iterdir()} == {".safetensors"}


@pytest.mark.parametrize("content", ["", "no number", str(os.getppid())])
def test_a_claim_that_nobody_holds_is_taken_over(tmp_path: Path, content: str) -> None:
    """Whatever is in it; the number of a process that ended may belong to another one by now."""
    store, maker = Store(tmp_path, "a model"), Maker()
    store.path(0).with_suffix(".claim").write_text(content)
    assert list(store.fill(1, maker)) == [0]
    assert maker.made == [0]
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".safetensors"]


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(stream: object, kind: int) -> None:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    assert list(Store(tmp_path, "a model").fill(2, Maker())) == [0, 1]
    assert [path.suffix for path in tmp_path.iterdir()] == [".safetensors"] * 2


@pytest.mark.parametrize("next_one", [True, False])
def test_a_claim_removed_while_it_was_taken_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, next_one: bool
) -> None:
    """Its holder was done in the moment between our opening and our locking it, and perhaps a third came."""
    store, maker, lock = Store(tmp_path, "a model"), Maker(), fcntl.flock
    claim = store.path(0).with_suffix(".claim")
    with contextlib.ExitStack() as third:

        def too_late(stream: Any, way: int) -> None:
            lock(stream, way)
            monkeypatch.setattr(fcntl, "flock", lock)
            claim.unlink()
            if next_one:
                lock(third.enter_context(claim.open("a")), way)

        monkeypatch.setattr(fcntl, "flock", too_late)
        assert list(store.fill(1, maker)) == ([] if next_one else [0])
        assert maker.made == ([] if next_one else [0])
        assert claim.exists() == next_one


def test_no_shard_is_made_twice(tmp_path: Path) -> None:
    """By eight that fill the folder at once, over claims of the dead."""
    store, maker = Store(tmp_path, "a model"), Maker()
    for number in range(0, 24, 2):
        store.path(number).with_suffix(".claim").touch()
    with ThreadPoolExecutor(8) as pool:
        for each in [pool.submit(lambda: list(store.fill(24, maker))) for _ in range(8)]:
            each.result()
    assert sorted(maker.made) == list(range(24))
    assert {path.suffix for path in tmp_path.iterdir()} == {".safetensors"}


def test_shards_of_another_origin_are_refused(tmp_path: Path) -> None:
    assert list(Store(tmp_path, "a model").fill(1, Maker())) == [0]
    with pytest.raises(ModelError, match="made with another model or other layers; use a new folder"):
        Store(tmp_path, "another model").present()
    assert np.array_equal(read(Store(tmp_path, "a model").present()[0]).starts, [0, 5, 9])

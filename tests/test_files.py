"""Files are written whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
import threading
from pathlib import Path

import platformdirs
import pytest

from guessahead.files import cache_dir, check_writable, replacing, write_whole


def test_a_file_is_written_and_written_again(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_whole(path, "one\n")
    assert path.read_text() == "one\n"
    path.chmod(0o640)
    write_whole(path, b"two")
    assert path.read_bytes() == b"two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["a.json"]


def test_what_was_there_stays_after_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_whole(path, "whole")

    def fail() -> None:
        with replacing(path) as unfinished:
            unfinished.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert path.read_text() == "whole"
    assert os.listdir(tmp_path) == ["a.json"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_text("old")
    link.symlink_to(real)
    write_whole(link, "new")
    assert link.is_symlink()
    assert real.read_text() == "new"


def test_a_pipe_is_written_directly(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found: list[str] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_text()))
    reader.start()
    write_whole(pipe, "through")
    reader.join(10)
    assert found == ["through"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        write_whole(tmp_path / "none" / "a", "x")


def test_what_a_writer_puts_in_its_place_gets_the_usual_mode(tmp_path: Path) -> None:
    """Some libraries write a file of their own, readable by its owner only, and rename it."""
    plain, path = tmp_path / "plain", tmp_path / "a"
    plain.touch()
    with replacing(path) as unfinished:
        other = tmp_path / "other"
        other.touch(0o600)
        other.replace(unfinished)
    assert path.stat().st_mode == plain.stat().st_mode


def test_the_longest_name(tmp_path: Path) -> None:
    write_whole(tmp_path / ("x" * 255), "a")
    check_writable(tmp_path / ("x" * 255))
    with pytest.raises(OSError, match="File name too long"):
        check_writable(tmp_path / ("x" * 256))


def test_a_folder_that_takes_no_new_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file in it is written directly. (Root may write anywhere: what the system would say is imitated.)"""
    path = tmp_path / "a"
    path.write_text("a longer text")
    monkeypatch.setattr(os, "access", lambda asked, _: Path(asked) != tmp_path)
    check_writable(path)
    write_whole(path, "b")
    assert path.read_text() == "b"


def test_a_file_that_must_not_be_written_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    monkeypatch.setattr(os, "access", lambda asked, _: Path(asked) != path)
    for write in (check_writable, lambda asked: write_whole(asked, "new")):
        with pytest.raises(PermissionError):
            write(path)
    assert path.read_text() == "old"


@pytest.mark.parametrize("number", [errno.EBUSY, errno.EPERM])
def test_a_file_that_cannot_be_replaced_is_written_in_place(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that a container mounts, or another user's in a folder like /tmp."""
    path = tmp_path / "a"
    path.write_text("a longer text")

    def busy(source: Path, target: Path) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "replace", busy)
    write_whole(path, "b")
    assert path.read_text() == "b"
    assert os.listdir(tmp_path) == ["a"]


def test_many_threads_write_one_file(tmp_path: Path) -> None:
    path, failed = tmp_path / "a", []

    def write(letter: str) -> None:
        try:
            for _ in range(50):
                write_whole(path, letter * 10_000)
        except OSError as error:
            failed.append(error)

    threads = [threading.Thread(target=write, args=(letter,)) for letter in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert len(set(path.read_text())) == 1
    assert path.stat().st_size == 10_000


@pytest.mark.parametrize("name", ["/dev/fd/{}", "/proc/self/fd/{}"])
def test_what_is_open_already_is_written_on(tmp_path: Path, name: str) -> None:
    """As the file of `> file`: a new one in its place would lose what was written and what comes."""
    path = tmp_path / "a"
    with path.open("w") as stream:
        stream.write("before ")
        stream.flush()
        opened = Path(name.format(stream.fileno()))
        check_writable(opened)
        write_whole(opened, "x")
        stream.seek(0, os.SEEK_END)
        stream.write(" after")
    assert path.read_text() == "before x after"
    reader, writer = os.pipe()
    opened = Path(name.format(writer))
    check_writable(opened)
    write_whole(opened, "one ")
    with replacing(opened) as direct:
        direct.write_text("two")
    os.close(writer)
    with open(reader) as pipe:
        assert pipe.read() == "one two"


def test_a_user_without_home_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GUESSAHEAD_CACHE", raising=False)
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda _: "~/.cache/guessahead")
    place = cache_dir()
    assert place.is_absolute()
    with pytest.raises(OSError, match="Not a directory"):
        place.mkdir(parents=True, exist_ok=True)

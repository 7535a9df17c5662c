"""Closed streams, full disks, readers that went away and odd file names, with every command that writes."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.cli.conftest import PROMPT, one_line, process, run
from tests.support.tiny import TinyModel

FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.is_char_device(), reason="there is no /dev/full")
SMALL = ("--max-tokens", "8", "--drafter", "none")


@pytest.fixture(scope="module")
def commands(tiny: TinyModel, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """A quick call of each command that writes to stdout."""
    folder = tmp_path_factory.mktemp("given")
    model, trace, text = str(tiny.path), folder / "trace.json", folder / "text.txt"
    assert run("generate", "-m", model, *SMALL, "--compare", "--trace", str(trace), PROMPT).exit_code == 0
    text.write_text(PROMPT)
    return {
        "help": ["--help"],
        "version": ["--version"],
        "generate": ["generate", "-m", model, *SMALL, PROMPT],
        "generate --json": ["generate", "-m", model, *SMALL, "--json", PROMPT],
        "generate --compare": ["generate", "-m", model, "--max-tokens", "8", "--compare", PROMPT],
        "chat": ["chat", "-m", model, *SMALL],
        "report": ["report", str(trace), "-o", str(folder / "page.html")],
        "predict": ["predict", "--alpha", "0.5"],
        "acceptance": ["acceptance", str(text), "-m", model, "--drafter", "suffix", "--gamma", "1"],
        "models": ["models"],
        "models --info": ["models", "--info", model],
        "bench --json": ["bench", "kernels", "--formats", "Q8_0", "--shapes", "64x64", "--rows", "1"],
    }


NAMES = (
    "help",
    "version",
    "generate",
    "generate --json",
    "generate --compare",
    "chat",
    "report",
    "predict",
    "acceptance",
    "models",
    "models --info",
    "bench --json",
)


def redirected(arguments: list[str], redirection: str) -> subprocess.CompletedProcess[bytes]:
    """The command with a redirection of the shell, which can close a stream."""
    command = ["sh", "-c", f'exec "$@" {redirection}', "sh", sys.executable, "-m", "guessahead", *arguments]
    return subprocess.run(command, capture_output=True, input=b"hello\n", timeout=60, check=False)


@needs_full
@pytest.mark.parametrize("name", NAMES)
def test_a_full_disk_behind_stdout_is_told(name: str, commands: dict[str, list[str]]) -> None:
    finished = redirected(commands[name], f"> {FULL}")
    assert finished.returncode == 2, finished.stderr
    assert finished.stderr.decode().splitlines()[-1] == "guessahead: stdout: No space left on device"


@pytest.mark.parametrize("name", NAMES)
def test_a_closed_stdout_is_told(name: str, commands: dict[str, list[str]]) -> None:
    finished = redirected(commands[name], ">&-")
    assert finished.returncode == 2, finished.stderr
    assert finished.stderr.decode().splitlines()[-1].startswith("guessahead: stdout")


@pytest.mark.parametrize("name", ["generate", "chat", "acceptance", "bench --json", "report"])
def test_a_closed_stdout_is_told_before_files_are_read(name: str, commands: dict[str, list[str]]) -> None:
    endings = (".gguf", "trace.json")
    arguments = [each if not each.endswith(endings) else "missing.gguf" for each in commands[name]]
    one_line(redirected(arguments, ">&-").stderr.decode(), "stdout", "closed")


@pytest.mark.parametrize("name", NAMES)
def test_a_reader_that_left_before_the_first_byte(name: str, commands: dict[str, list[str]]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "guessahead", *commands[name]]
    finished = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=writer, stderr=subprocess.PIPE, timeout=60, check=False
    )
    os.close(writer)
    assert finished.returncode == (141 if name != "chat" else 0), finished.stderr
    assert b"Traceback" not in finished.stderr


@pytest.mark.parametrize("redirection", ["2>&-", f"2> {FULL}"])
def test_an_answer_needs_no_stderr(redirection: str, commands: dict[str, list[str]]) -> None:
    expected = redirected(commands["generate"], "")
    finished = redirected(commands["generate"], redirection)
    assert (finished.returncode, finished.stdout) == (0, expected.stdout)
    assert finished.stderr == b""


@pytest.mark.parametrize("arguments", [["generate", "-"], ["chat"]])
def test_a_closed_stdin_is_told(arguments: list[str], tiny: TinyModel) -> None:
    finished = redirected([*arguments, "-m", str(tiny.path), *SMALL], "<&-")
    assert finished.returncode == 2
    one_line(finished.stderr.decode(), "stdin", "closed")


def test_without_any_stream_a_file_is_written(tiny: TinyModel, tmp_path: Path) -> None:
    """And no message of a stream gets into it, though it could have got the number of one."""
    target, same = tmp_path / "target.gguf", tmp_path / "same.gguf"
    for each, redirection in ((target, "<&- >&- 2>&-"), (same, "")):
        finished = redirected(["convert", str(tiny.path), str(each), "--type", "Q8_0"], redirection)
        assert finished.returncode == 0
    assert target.read_bytes() == same.read_bytes()


def test_a_stdout_that_does_not_block(tiny: TinyModel) -> None:
    """Some programs start others with such a pipe; a slow reader must not end the answer."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    options = ["--max-tokens", "400", "--json", "--logprobs", "20", "--drafter", "none"]
    command = [sys.executable, "-m", "guessahead", "generate", "-m", str(tiny.path), *options, PROMPT]
    with subprocess.Popen(command, stdout=writer, stderr=subprocess.PIPE) as child:
        os.close(writer)
        assert child.stderr is not None
        with open(reader, "rb") as stream:
            document = json.loads(stream.read())
        assert child.wait(timeout=60) == 0, child.stderr.read()
    assert document["logprobs"]


def files(tmp_path: Path, commands: dict[str, list[str]], tiny: TinyModel) -> dict[str, list[str]]:
    """A call of each command that writes a file, up to the name of it."""
    return {
        "generate": [*commands["generate"], "--trace"],
        "report": [*commands["report"][:2], "-o"],
        "predict": [*commands["predict"], "--plot"],
        "bench": [*commands["bench --json"], "--json"],
        "convert": ["convert", str(tiny.path), "--type", "Q8_0", "--force"],
    }


@needs_full
@pytest.mark.parametrize("name", ["generate", "report", "bench", "convert"])
def test_a_full_disk_is_told(
    name: str, tmp_path: Path, commands: dict[str, list[str]], tiny: TinyModel
) -> None:
    result = run(*files(tmp_path, commands, tiny)[name], str(FULL))
    assert result.exit_code == 2
    assert "/dev/full" in result.stderr.splitlines()[-1]
    assert "No space left on device" in result.stderr.splitlines()[-1]
    assert FULL.is_char_device(), "it was not replaced by a file"


@pytest.mark.parametrize("name", ["generate", "report", "predict", "bench", "convert"])
@pytest.mark.parametrize("place", ["folder", "in a file", "no folder", "name too long"])
def test_what_cannot_be_written_is_told_first(
    name: str, place: str, tmp_path: Path, commands: dict[str, list[str]], tiny: TinyModel
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder.svg").mkdir()
    target = {
        "folder": tmp_path / "folder.svg",
        "in a file": tmp_path / "file" / "new.svg",
        "no folder": tmp_path / "no" / "new.svg",
        "name too long": tmp_path / ("x" * 300 + ".svg"),
    }[place]
    arguments = files(tmp_path, commands, tiny)[name]
    result = run(*arguments, str(target))
    assert result.exit_code == 2
    assert result.stdout == ""
    one_line(result.stderr, str(target))
    assert sorted(os.listdir(tmp_path)) == ["file", "folder.svg"]


@pytest.mark.parametrize("option", ["--output", "--data", "--speculators"])
def test_a_folder_that_takes_no_files_is_told_before_training(
    option: str, tiny: TinyModel, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    (tmp_path / "file").touch()
    folders = {"--output": str(tmp_path / "o"), "--data": str(tmp_path / "d")}
    folders[option] = str(tmp_path / "file" / "folder")
    result = run("train", "-m", str(tiny.path), *[each for pair in folders.items() for each in pair])
    assert result.exit_code == 2
    one_line(result.stderr, folders[option], "cannot be written")


def test_a_setting_that_cannot_be_saved_is_told_before_measuring(
    tiny: TinyModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("GUESSAHEAD_TUNED", str(tmp_path / "file" / "tuned.json"))
    result = run("tune", "-m", str(tiny.path))
    assert result.exit_code == 2
    one_line(result.stderr, str(tmp_path / "file"), "cannot be written")


@pytest.mark.parametrize("name", ["generate", "report", "predict", "bench", "convert"])
def test_mode_link_and_the_longest_name_are_kept(
    name: str, tmp_path: Path, commands: dict[str, list[str]], tiny: TinyModel
) -> None:
    real = tmp_path / ("x" * 251 + ".svg")
    real.write_text("old")
    real.chmod(0o640)
    link = tmp_path / "link.svg"
    link.symlink_to(real)
    result = run(*files(tmp_path, commands, tiny)[name], str(link))
    assert result.exit_code == 0, result.output
    assert link.is_symlink()
    assert real.read_bytes() != b"old"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert len(os.listdir(tmp_path)) == 2


@pytest.mark.parametrize("name", ["generate", "report", "bench", "convert"])
def test_a_pipe_gets_the_file(
    name: str, tmp_path: Path, commands: dict[str, list[str]], tiny: TinyModel
) -> None:
    pipe, found = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()))
    reader.start()
    result = run(*files(tmp_path, commands, tiny)[name], str(pipe))
    reader.join(20)
    assert result.exit_code == 0, result.output
    assert len(found[0]) > 100
    assert pipe.is_fifo()


def test_a_trace_to_stdout_keeps_the_answer(commands: dict[str, list[str]], tmp_path: Path) -> None:
    """As a pipe, as a file, and as one that the shell has opened."""
    answer = redirected(commands["generate"], "").stdout
    path = tmp_path / "out"
    for redirection in (
        "--trace /dev/stdout",
        f"--trace /dev/stdout > {path}",
        f"--trace /dev/fd/3 3>&1 > {path}",
    ):
        finished = redirected(commands["generate"], redirection)
        assert finished.returncode == 0, finished.stderr
        found = finished.stdout + (path.read_bytes() if path.exists() else b"")
        rest = found.replace(answer, b"", 1)
        assert len(rest) == len(found) - len(answer)
        assert json.loads(rest)["version"] == 1


def test_a_failed_run_leaves_the_old_trace(tiny: TinyModel, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    trace.write_text("old")
    result = run("generate", "-m", str(tiny.path), "--trace", str(trace), "--temperature", "-1", PROMPT)
    assert result.exit_code == 2
    assert trace.read_text() == "old"


@pytest.mark.parametrize("locale", ["C.UTF-8", "C"])
def test_file_names_that_are_not_utf8(locale: str, tiny: TinyModel, tmp_path: Path) -> None:
    """Every command reads and writes such files, and prints their names as they are."""
    folder = os.fsencode(tmp_path)
    model, trace, page, text = (
        folder + b"/" + name for name in (b"m\xff.gguf", b"t\xfe", b"p\xfd", b"x\xfc")
    )
    shutil.copyfile(tiny.path, model)
    Path(os.fsdecode(text)).write_text(PROMPT * 3)
    environment = {"LC_ALL": locale}
    environment["GUESSAHEAD_CACHE"] = os.fsdecode(folder + b"/cache\xfb")
    calls: list[tuple[list[bytes | str], bytes]] = [
        (["generate", "-m", model, *SMALL, "--trace", trace, PROMPT], b""),
        (["generate", "-m", model, *SMALL, "--json", PROMPT], b'"model": "m?"'),
        (["generate", "-m", model, "--drafter", "self-q8", "hello"], b""),
        (["report", trace, "-o", page], b"p\xfd\n"),
        (["models", "--info", model], b"m\xff.gguf"),
        (["models"], b"cache\xfb\n"),
        (["acceptance", text, "-m", model, "--drafter", "suffix", "--gamma", "1"], b"x\xfc"),
        (["convert", model, folder + b"/n\xfa.gguf", "--type", "Q8_0"], b""),
        (["generate", "-m", folder + b"/n\xfa.gguf", *SMALL, PROMPT], b""),
    ]
    for arguments, shown in calls:
        finished = process(*[os.fsdecode(each) for each in arguments], environment=environment)
        assert finished.returncode == 0, (arguments, finished.stderr)
        assert shown in finished.stdout
    assert b"n\xfa.gguf" in os.listdir(folder)

"""The command as a process: streams, signals, readers that go away, and a quick start."""

from __future__ import annotations

import importlib.metadata
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import guessahead
from guessahead.cli import base
from guessahead.options import GenerateOptions
from tests.cli.conftest import PROMPT, process, run
from tests.support.tiny import TinyModel, tiny_gguf

COMMANDS = (
    "generate",
    "demo",
    "chat",
    "report",
    "predict",
    "acceptance",
    "tune",
    "pull",
    "models",
    "bench",
    "convert",
)


@pytest.fixture(scope="module")
def endless(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """A command that writes for a long time."""
    model = tiny_gguf(tmp_path_factory.mktemp("models") / "long.gguf", context=100_000)
    options = ["--max-tokens", "90000", "--min-tokens", "90000", "--drafter", "none"]
    return [sys.executable, "-m", "guessahead", "generate", "-m", str(model.path), *options, PROMPT]


def test_streams(tiny: TinyModel) -> None:
    finished = process("generate", "-m", str(tiny.path), "--max-tokens", "12", "-", input=PROMPT.encode())
    assert finished.returncode == 0
    assert finished.stdout.endswith(b"\n")
    assert b"tokens/s" in finished.stderr
    assert b"tokens/s" not in finished.stdout


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Processes started here heed SIGINT, which a shell makes its background jobs ignore."""
    inherited = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, inherited)


@pytest.mark.usefixtures("interruptible")
def test_the_answer_streams(endless: list[str]) -> None:
    """The first text is there long before the last; Ctrl-C ends it with 130 and no traceback."""
    with subprocess.Popen(endless, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.read(1)
        assert child.poll() is None
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=60)
    assert child.returncode == 130
    assert errors.strip() == b""


def test_a_reader_that_goes_away(endless: list[str]) -> None:
    with subprocess.Popen(endless, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.read(1)
        child.stdout.close()
        assert child.stderr.read() == b""
        assert child.wait(timeout=60) == 141


def test_stdout_that_knows_only_ascii(tiny: TinyModel) -> None:
    finished = process(
        "generate",
        "-m",
        str(tiny.path),
        "--max-tokens",
        "60",
        PROMPT,
        environment={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
    )
    assert finished.returncode == 0, finished.stderr
    finished.stdout.decode("ascii")


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    heavy = [
        "numpy",
        "rich",
        "tokenizers",
        "jinja2",
        "huggingface_hub",
        "guessahead._native",
        "guessahead.options",
    ]
    script = (
        "import sys\n"
        "from guessahead.cli import main\n"
        f"try: main({arguments!r})\n"
        f"finally: sys.stderr.write(' '.join(m for m in {heavy!r} if m in sys.modules))"
    )
    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, timeout=60)
    assert finished.stdout
    assert finished.stderr == b""


def test_version() -> None:
    assert run("--version").stdout == f"guessahead {importlib.metadata.version('guessahead')}\n"
    assert guessahead.__version__ == importlib.metadata.version("guessahead")


def test_help_lists_the_commands() -> None:
    text = run("--help").stdout
    for name in COMMANDS:
        assert f"\n  {name} " in text
        assert run(name, "--help").exit_code == 0


def test_help_lists_every_setting_of_the_library() -> None:
    text = run("generate", "--help").stdout
    options = {word.strip(",") for word in text.split() if word.startswith("--")}
    names = {name.replace("_", "-") for name in GenerateOptions.__dataclass_fields__}
    names -= {"drafter-options", "continue-last"}  # a command line has no messages to continue
    names = names - {"schema"} | {"json-schema"}
    assert {f"--{name}" for name in names} | {"--drafter-option"} <= options
    assert {
        "--model",
        "--threads",
        "--context",
        "--activations",
        "--compare",
        "--json",
        "--show-draft",
    } <= options
    assert "-o, --drafter-option NAME=VALUE" in text


def test_help_shows_the_defaults_of_the_library() -> None:
    text = "".join(run("generate", "--help").stdout.split())  # a default may be wrapped anywhere
    for name, kind, default in (
        ("max_tokens", "INTEGER", 256),
        ("drafter", "TEXT", "portfolio"),
        ("top_p", "FLOAT", 1.0),
    ):
        assert GenerateOptions.__dataclass_fields__[name].default == default
        _, _, section = text.partition(f"--{name.replace('_', '-')}{kind}")
        assert f"[default:{default}]" in section.partition("--")[0]


def test_the_cache_variable_is_honoured(tmp_path: Path) -> None:
    finished = process("models", environment={"GUESSAHEAD_CACHE": str(tmp_path)})
    assert finished.returncode == 0
    assert f"cache: {tmp_path}" in finished.stdout.decode()
    assert finished.stdout.decode().count("not fetched") == 3
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("given", [None, "3"])
def test_numpy_starts_no_threads_and_torch_may(given: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "OPENBLAS_NUM_THREADS"
    monkeypatch.delenv(name, raising=False)
    if given is not None:
        monkeypatch.setenv(name, given)
    base.limit_numpy()
    assert int(os.environ[name]) == int(given or 1)
    base.unlimit_torch()
    assert os.environ.get(name) == given

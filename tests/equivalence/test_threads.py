"""Several threads on one model at once: each gets what it gets alone."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from guessahead import load
from tests.support.tiny import tiny_gguf

REQUESTS: list[dict[str, Any]] = [
    {"prompt": "the quick brown fox", "max_tokens": 40},
    {"prompt": "def function(self, value):", "max_tokens": 40, "temperature": 0.8, "seed": 3},
    {"prompt": "the lazy dog and the lazy dog", "max_tokens": 40, "drafter": "prompt-lookup", "gamma": 5},
    {"prompt": "for index in range(10)", "max_tokens": 40, "drafter": "none", "logprobs": 2},
]


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_get_what_they_get_alone(tmp_path: Path, threads: int) -> None:
    model = load(tiny_gguf(tmp_path / "tiny.gguf").path, threads=threads)
    alone = [model.generate(**request) for request in REQUESTS]
    found: dict[int, list[Any]] = {index: [] for index in range(len(REQUESTS))}
    gate = threading.Barrier(len(REQUESTS))

    def work(index: int) -> None:
        gate.wait()
        for _ in range(5):
            found[index].append(model.generate(**REQUESTS[index]))

    workers = [threading.Thread(target=work, args=(index,)) for index in found]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for index, generations in found.items():
        assert len(generations) == 5
        for each in generations:
            assert each.token_ids == alone[index].token_ids
            assert each.text == alone[index].text
            assert each.logprobs == alone[index].logprobs

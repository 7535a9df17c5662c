"""Worker threads: one pool for all models of a process, which their passes share."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from guessahead import _native
from guessahead.engines.native import NativeEngine
from guessahead.protocols import Rows
from tests.native.rows import greedy, load
from tests.support.tiny import TinyModel, tiny_gguf

THREADS = 3  # of no other test, so that nobody else holds this pool
PROMPT = [5, 9, 40, 77]


def num_threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[TinyModel]:
    folder = tmp_path_factory.mktemp("pool")
    shapes = [{"format": "Q8_0", "seed": 1}, {"format": "Q4_1", "seed": 2, "arch": "qwen2"}]
    return [tiny_gguf(folder / f"{i}.gguf", **shape) for i, shape in enumerate(shapes)]  # type: ignore[arg-type]


def generate(engine: NativeEngine, num_tokens: int) -> list[bytes]:
    """The logits behind each token, greedy, each pass with a guess that is always dropped."""
    tokens, bits = list(PROMPT), []
    sequence = engine.new_sequence()
    for _ in range(num_tokens):
        pending = tokens[sequence.length :]
        rows = np.array([*pending, 7], np.int32)
        [output] = engine.forward(
            [Rows(sequence, rows, None, greedy(tokens), choose_from=len(pending) - 1, want_logits="path")]
        )
        assert output.logits is not None
        bits.append(output.logits[len(pending) - 1].tobytes())
        tokens.append(int(output.chosen[len(pending) - 1]))
    sequence.close()
    return bits


def at_once(*works: Callable[[], list[bytes]]) -> list[list[bytes]]:
    results: list[list[bytes]] = [[] for _ in works]

    def run(index: int) -> None:
        results[index] = works[index]()

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
        assert not thread.is_alive(), "the passes of two models wait for each other"
    return results


def test_there_is_one_pool_for_each_number_of_threads() -> None:
    pool = _native.Pool(THREADS)
    assert _native.Pool(THREADS) is pool
    assert _native.Pool(THREADS + 1) is not pool
    assert (pool.size, _native.Pool(1).size) == (THREADS, 1)
    for wrong in (0, -1):
        with pytest.raises(ValueError, match="at least one thread"):
            _native.Pool(wrong)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="no /proc that lists threads")
def test_its_threads_end_with_the_last_model_that_uses_them(models: list[TinyModel]) -> None:
    gc.collect()
    before = num_threads()
    engines = [load(model, threads=THREADS) for model in models]
    assert num_threads() == before + THREADS - 1, "the caller is a worker, and both models share the others"
    del engines[0]
    gc.collect()
    assert num_threads() == before + THREADS - 1
    assert len(generate(engines[0], 2)) == 2
    engines.clear()
    gc.collect()
    assert num_threads() == before


def test_two_models_used_from_two_threads_give_what_each_gives_alone(models: list[TinyModel]) -> None:
    engines = [load(model, threads=THREADS) for model in models]
    alone = [generate(engine, 60) for engine in engines]
    assert alone[0] != alone[1]
    assert at_once(*(lambda engine=engine: generate(engine, 60) for engine in engines)) == alone  # type: ignore[misc]


def test_a_model_can_be_loaded_while_another_runs(models: list[TinyModel]) -> None:
    first = load(models[0], threads=THREADS)
    alone = generate(first, 60)
    expected = generate(load(models[1], threads=1), 5)

    def load_often() -> list[bytes]:
        found = [generate(load(models[1], threads=THREADS), 5) for _ in range(4)]
        assert found.count(expected) == 4
        return found[0]

    assert at_once(lambda: generate(first, 60), load_often) == [alone, expected]


FORKED = """
import os, warnings
from guessahead import _native
warnings.simplefilter("ignore")
pool = _native.Pool(2)
_native.peak(pool)
child = os.fork()
if child == 0:
    mine = _native.Pool(2)  # the parent's workers do not exist here
    os._exit(0 if _native.peak(mine) > 0 else 1)
assert os.waitpid(child, 0)[1] == 0
assert _native.Pool(2) is pool
"""


@pytest.mark.skipif(sys.platform != "linux", reason="forking with threads is left to Linux")
def test_a_process_that_was_forked_has_a_pool_of_its_own() -> None:
    subprocess.run([sys.executable, "-c", FORKED], check=True, timeout=60)

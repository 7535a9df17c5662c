"""What loading takes is known before, and too little memory is a clear line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from guessahead import _native, load
from guessahead.checkpoints.gguf import GGMLType, GGUFFile
from guessahead.cli import main
from guessahead.engines.native import NativeEngine
from guessahead.errors import ModelError, PromptError
from guessahead.models import memory
from guessahead.protocols import Rows
from tests.support.families import FAMILIES
from tests.support.tiny import tiny_gguf

# Loads each model and runs it up to a text of so many tokens, with a wide tree at its end; prints what memory
# that took. The first one is there to warm up: what Python and the libraries take once is no model's.
RUN_EACH = """
import gc, sys
from pathlib import Path
import numpy as np
from guessahead.protocols import Rows
from guessahead.engines.native import NativeEngine
from guessahead.checkpoints.gguf import GGUFFile
from guessahead.types import ChoiceContext, SamplingParams

def anonymous():
    gc.collect()
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(x for x in lines if x.startswith("RssAnon")).split()[1]) * 1024

text = np.full(int(sys.argv[1]), 5, np.int32)
parents = np.array([-1] + [0] * 63, np.int32)
kept = []
for path in sys.argv[2:]:
    before = anonymous()
    with GGUFFile.open(Path(path)) as file:
        engine = NativeEngine.from_gguf(file, threads=1)
    sequence = engine.new_sequence()
    engine.forward([Rows(sequence, text[:-1])])
    tree = np.concatenate([text[-1:], np.arange(63, dtype=np.int32)])
    choice = ChoiceContext(SamplingParams(), text, len(text))
    engine.forward([Rows(sequence, tree, parents, choice, choose_from=0)])
    kept.append((engine, sequence))
    print(anonymous() - before, sequence.num_bytes)
"""
ONCE = 2_000_000  # bytes: allocator and Python


def measured(paths: list[Path], num_tokens: int) -> list[tuple[int, int]]:
    """(memory that running each model added, cache of its sequence), in a process of its own."""
    command = [sys.executable, "-c", RUN_EACH, str(num_tokens), paths[0], *paths]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [line.split() for line in run.stdout.splitlines()]
    return [(int(grown), int(cache)) for grown, cache in lines[1:]]


def needs_of(path: Path, **settings: object) -> memory.Needs:
    with GGUFFile.open(path) as file:
        return NativeEngine.needs(file, **settings)


@pytest.mark.parametrize("cache", ["f32", "f16"])
def test_the_cache_takes_what_was_said(tmp_path: Path, cache: str) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf").path
    engine = load(path, threads=1, cache=cache).runner.engine
    sequence = engine.new_sequence()
    engine.forward([Rows(sequence, np.full(128, 5, np.int32))])
    assert sequence.num_bytes == 128 * needs_of(path, cache=cache).per_token


def test_weights_are_counted_as_they_are_packed(tmp_path: Path) -> None:
    """Measured in a process of its own: the resident memory that loading adds."""
    path = tiny_gguf(tmp_path / "tiny.gguf", width=512, ffn=4096, layers=6, format="F32").path
    script = (
        "import sys\nfrom pathlib import Path\nfrom guessahead import load\n"
        "import guessahead.engines.native, guessahead.checkpoints.folders, guessahead.text.stream\n"
        "def anonymous():\n"
        "    lines = Path('/proc/self/status').read_text().splitlines()\n"
        "    return int(next(x for x in lines if x.startswith('RssAnon')).split()[1]) * 1024\n"
        "before = anonymous()\nmodel = load(sys.argv[1], threads=1)\nprint(anonymous() - before)\n"
    )
    run = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, check=True)
    needs = needs_of(path, threads=1)
    assert needs.weights > 100e6
    assert 0.95 * needs.weights < int(run.stdout) < 1.1 * needs.weights + needs.buffers + 20e6


def test_what_every_architecture_takes_was_said(tmp_path: Path) -> None:
    shape = {"format": "Q8_0", "width": 512, "ffn": 1536, "heads": 8}
    paths = [tiny_gguf(tmp_path / f"{name}.gguf", name, **shape).path for name in FAMILIES]
    for path, (grown, cache) in zip(paths, measured(paths, 192), strict=True):
        needs = needs_of(path, threads=1)
        said = needs.weights + needs.buffers + cache + 192 * needs.work_per_token
        assert 0.9 * needs.weights < grown < said + ONCE, path.stem
        assert said < 2.5 * needs.weights, "it says something"


def test_what_long_texts_take_was_said(tmp_path: Path) -> None:
    """With heads so many that the results of their segments take more than the cache."""
    path = tiny_gguf(tmp_path / "m.gguf", heads=16, kv_heads=1, head_dim=64, layers=1, context=8192).path
    needs = needs_of(path, threads=1)
    [(short, few), (long, many)] = measured([path], 256)[0], measured([path], 4096)[0]
    work = (long - many) - (short - few)
    assert 0.4 * needs.work_per_token * 4096 < work < needs.work_per_token * 4096


@pytest.mark.parametrize("format", _native.FORMATS)
def test_every_format_counts(tmp_path: Path, format: str) -> None:
    """About what the matrices take in the file: a pass reads little more."""
    model = tiny_gguf(tmp_path / "tiny.gguf", width=512, format=format)
    matrices = sum(GGMLType[format].row_bytes(each.size) for each in model.weights.values() if each.ndim == 2)
    assert matrices <= needs_of(model.path).weights < 1.2 * matrices + 50_000


@pytest.mark.parametrize("free", [0, 100_000])
def test_too_little_memory_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf").path
    monkeypatch.setattr(memory, "available", lambda: free)
    with pytest.raises(ModelError, match=r"loading takes .* of memory .*are free; use a smaller") as caught:
        load(path)
    assert "\n" not in str(caught.value)


def test_a_limit_on_the_address_space_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf").path
    needs = needs_of(path, threads=3)
    monkeypatch.setattr(memory, "address_space", lambda: 2 * needs.weights + needs.buffers)
    load(path, threads=2)
    with pytest.raises(ModelError, match=r"of address space.*ulimit -v"):
        load(path, threads=3)


def test_context_bounds_the_cache(tmp_path: Path) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf").path
    assert needs_of(path, context=64).full_context * 16 == needs_of(path, context=1024).full_context
    model = load(path, threads=1, context=64)
    ended = model.generate([5] * 40, max_tokens=200, gamma=0)
    assert ended.num_prompt_tokens + len(ended.token_ids) <= 65
    with pytest.raises(PromptError):
        model.generate([5] * 65, max_tokens=1)


def test_models_info(tmp_path: Path) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf").path
    facts = json.loads(CliRunner().invoke(main, ["models", "--info", str(path), "--json"]).output)
    needs = needs_of(path)
    assert facts["weight_bytes"] == needs.weights
    assert facts["cache_bytes_per_token"] == needs.per_token == 2 * 2 * 2 * 16 * 4
    text = CliRunner().invoke(main, ["models", "--info", str(path)]).output
    assert "for 1,000 tokens" in text
    assert "llama" in text

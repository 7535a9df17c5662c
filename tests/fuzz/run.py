"""Loads mutated files: each must be refused in one line, or give a model that works.

    python tests/fuzz/run.py [--count 100000] [--seconds 360] [--seed 0] [--keep FOLDER]

Run from the repository root. A refusal is an InputError without a line break. Anything else is a finding, so
is a load that takes more than 5 seconds of processor time, or 64 MB more memory than before (the files have
under 200 kB): the file is kept, and the script ends with 1. After a crash the last file is still in FOLDER.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import shutil
import struct
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from guessahead import load
from guessahead.errors import InputError
from tests.checkpoints.folders.making import write_folder
from tests.fuzz import architectures
from tests.fuzz.mutate import mutate_bytes, mutate_json
from tests.support.tiny import tiny_gguf

MAX_SECONDS, MAX_GROWTH = 5.0, 64 << 20


def check(path: Path) -> str:
    """How loading ended: "refused" or "works". AssertionError for a finding."""
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    started = time.process_time()
    try:
        model = load(path, threads=1)
        model.generate([1, 2], max_tokens=2, gamma=0)
        model.tokenizer.decode(model.tokenizer.encode("a b <|im_end|>", special=True))
        outcome = "works"
    except InputError as error:
        outcome = "refused" if "\n" not in str(error) else "refused in several lines"
    assert outcome != "refused in several lines", outcome
    assert time.process_time() - started < MAX_SECONDS, "too slow"
    growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - memory
    assert growth < MAX_GROWTH, f"{growth >> 20} MB more memory"
    return outcome


def makers(folder: Path) -> dict[str, Callable[[random.Random], Path]]:
    """Kind of file -> writes a mutation and says what to load."""
    tiny = tiny_gguf(folder / "tiny.gguf", layers=1, width=32, ffn=32, heads=2, kv_heads=1, context=64)
    whole = tiny.path.read_bytes()
    header = whole.index(b"token_embd.weight") + 1200
    tokenizer_at = whole.index(b"tokenizer.ggml.model")
    small = tiny_gguf(folder / "f.gguf", format="F32", layers=1, width=32, ffn=32, heads=2, kv_heads=1)
    base = write_folder(folder / "folder", small)
    originals = {path.name: path.read_bytes() for path in sorted(base.iterdir())}
    target = folder / "mutated.gguf"

    def gguf(rng: random.Random) -> Path:
        target.write_bytes(mutate_bytes(whole, rng, header))
        return target

    def gguf_tokenizer(rng: random.Random) -> Path:
        tail = mutate_bytes(whole[tokenizer_at:], rng, header - tokenizer_at)
        target.write_bytes(whole[:tokenizer_at] + tail)
        return target

    def file_of_folder(name: str, rng: random.Random) -> Path:
        for other, data in originals.items():
            if (base / other).stat().st_size != len(data) or other in changed:
                (base / other).write_bytes(data)
        changed.clear()
        changed.add(name)
        data = originals[name]
        if name.endswith(".json"):
            (base / name).write_bytes(mutate_json(data.decode(), rng))
            return base
        length = struct.unpack_from("<Q", data)[0]
        if rng.random() < 0.5:
            (base / name).write_bytes(mutate_bytes(data, rng, 8 + length))
        else:
            text = mutate_json(data[8 : 8 + length].decode(), rng)
            (base / name).write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length :])
        return base

    changed: set[str] = set()
    kinds = {name: (lambda rng, name=name: file_of_folder(name, rng)) for name in originals}
    own = {"GGUF": gguf, "GGUF tokenizer": gguf_tokenizer, "GGUF architectures": architectures.maker(folder)}
    return own | kinds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=360)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()) / "guessahead-fuzz")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    shutil.rmtree(arguments.keep, ignore_errors=True)
    arguments.keep.mkdir(parents=True)
    kinds = makers(arguments.keep)
    outcomes: Counter[str] = Counter()
    findings, number, started = 0, 0, time.monotonic()
    while number < arguments.count and time.monotonic() - started < arguments.seconds:
        kind = list(kinds)[number % len(kinds)]
        path = kinds[kind](random.Random(f"{arguments.seed} {number}"))
        try:
            outcomes[f"{kind}: {check(path)}"] += 1
        except BaseException as error:  # a finding of any kind, panics of Rust included
            if isinstance(error, KeyboardInterrupt):
                raise
            findings += 1
            kept = arguments.keep / f"finding-{number}"
            (shutil.copytree if path.is_dir() else shutil.copy)(path, kept)
            sys.stdout.write(f"{number} {kind}: {type(error).__name__}: {str(error)[:300]} ({kept})\n")
            if findings >= 20:
                break
        number += 1
    sys.stdout.write(json.dumps({"count": number, "findings": findings, **outcomes}, indent=1) + "\n")
    sys.exit(findings > 0)


if __name__ == "__main__":
    main()

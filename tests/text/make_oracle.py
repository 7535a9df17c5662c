"""Asks llama.cpp's server for the token ids of the odd strings, and writes tests/text/data.

    python tests/text/make_oracle.py LLAMA_SERVER SMOLLM2.gguf QWEN2.5-CODER-0.5B.gguf

LLAMA_SERVER is the program llama-server; the models are `smollm2-135m` and `qwen2.5-coder-0.5b`
(`guessahead pull`). Run from the repository root, with the package and `gguf` installed.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import gguf

from tests.text import store
from tests.text.odd_strings import odd_strings

URL = "http://127.0.0.1:18180"


def _ask(path: str, body: dict[str, Any] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(URL + path, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


@contextmanager
def _server(program: str, model: str) -> Iterator[Path]:
    """A server for `model`; yields its log."""
    with tempfile.NamedTemporaryFile("w", suffix=".log") as log:
        arguments = [program, "-m", model, "-ngl", "0", "-c", "512", "-t", "1", "--verbose", "--no-warmup"]
        arguments += ["--host", "127.0.0.1", "--port", URL.rpartition(":")[2]]
        process = subprocess.Popen(arguments, stdout=log, stderr=subprocess.STDOUT)
        try:
            for _ in range(240):
                if process.poll() is not None:
                    raise SystemExit(f"{program} ended: {Path(log.name).read_text()[-2000:]}")
                try:
                    _ask("/health")
                    break
                except (urllib.error.URLError, ConnectionError):
                    time.sleep(0.5)
            yield Path(log.name)
        finally:
            process.terminate()
            process.wait()


def _ids(text: str, *, special: bool) -> list[int]:
    body = {"content": text, "add_special": False, "parse_special": special}
    return list(_ask("/tokenize", body)["tokens"])


def _answers(log: Path, texts: list[str]) -> dict[str, Any]:
    """plain: ids with special tokens as text; special: [index, ids] where parsing them makes a difference."""
    plain = [_ids(text, special=False) for text in texts]
    special = [_ids(text, special=True) for text in texts]
    pairs = zip(plain, special, strict=True)
    found = re.findall(r"load:\s+- (\d+) \('", log.read_text(errors="replace"))
    return {
        "plain": plain,
        "special": [[index, ids] for index, (text_ids, ids) in enumerate(pairs) if text_ids != ids],
        "eos_ids": sorted({int(token_id) for token_id in found}),
    }


def main(program: str, *models: str) -> None:
    """Write the data files."""
    texts = odd_strings()
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stderr
    oracle: dict[str, Any] = {"made_with": version.split("\n")[0], "texts": texts}
    for kind, model in zip(store.KINDS, models, strict=True):
        fields = gguf.GGUFReader(model).fields
        store.save(f"{kind}_tokenizer", store.pack({key: field.contents() for key, field in fields.items()}))
        with _server(program, model) as log:
            oracle[kind] = _answers(log, texts)
    store.save("oracle", oracle)


if __name__ == "__main__":
    main(*sys.argv[1:])

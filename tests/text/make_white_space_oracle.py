"""Asks llama.cpp how it cuts white space around special tokens, and writes tests/text/data.

    python tests/text/make_white_space_oracle.py

Needs the package xllamacpp, which brings llama.cpp. Run from the repository root.
"""

from __future__ import annotations

import json
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.text import store
from tests.text.white_space import DATA, models, texts
from tests.text.writing import write_model


def main() -> None:
    """Write the data file."""
    import xllamacpp

    answers: dict[str, list[list[int]]] = {}
    for name, metadata in models():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.gguf"
            write_model(path, metadata)
            parameters = xllamacpp.CommonParams()
            parameters.model.path = str(path)
            parameters.n_ctx, parameters.warmup, parameters.cpuparams.n_threads = 64, False, 1
            server = xllamacpp.Server(parameters)
            answers[name] = [_ids(server.listening_address, text) for text in texts()]
    store.save(DATA, {"made_with": f"xllamacpp {xllamacpp.__version__}", "answers": answers})


def _ids(address: str, text: str) -> list[int]:
    body = json.dumps({"content": text, "add_special": False, "parse_special": True}).encode()
    request = urllib.request.Request(f"{address}/tokenize", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        found: dict[str, Any] = json.load(answer)
        return list(found["tokens"])


if __name__ == "__main__":
    main()

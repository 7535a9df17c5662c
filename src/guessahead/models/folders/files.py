"""Small JSON files of a model folder, read with limits. Every problem is a ModelError of one line."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any, Final

from guessahead.errors import ModelError
from guessahead.models.gguf.mapping import refuse_pointer

_MAX_JSON_BYTES: Final = 256 << 20  # tokenizer.json of the largest vocabularies: some 30 MB


def read_json(path: Path) -> dict[str, Any]:
    """The object that a JSON file holds."""
    return parse_json(read_bytes(path), path)


def read_bytes(path: Path) -> bytes:
    """The content of a regular file of moderate size."""
    try:
        facts = path.stat()
        if not stat.S_ISREG(facts.st_mode):  # opening a pipe would wait for its other end
            raise ModelError(f"{path}: not a file")
        if facts.st_size > _MAX_JSON_BYTES:
            raise ModelError(f"{path}: {facts.st_size} bytes are too many for such a file")
        data = path.read_bytes()
        refuse_pointer(path, data)
        return data
    except (OSError, ValueError) as error:  # ValueError: a null character in the path
        raise ModelError(f"{path}: cannot be read: {getattr(error, 'strerror', error)}") from None


def parse_json(data: bytes, path: Path) -> dict[str, Any]:
    """The object that `data`, of the file `path`, spells."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path}: damaged JSON: {' '.join(str(error).split())[:200]}") from None
    if not isinstance(found, dict):
        raise ModelError(f"{path}: damaged: it holds no JSON object")
    return found

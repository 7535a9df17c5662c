"""A model file again at lower precision, kept in the user cache."""

from __future__ import annotations

import hashlib
import math
import os
from pathlib import Path

from guessahead.errors import ModelError
from guessahead.models.convert import convert
from guessahead.models.download import cache_dir
from guessahead.models.gguf import GGUFFile


def bits_per_weight(file: GGUFFile) -> float:
    """Of all matrices together: 4.5 for Q4_0 alone, 16 for F16."""
    matrices = [tensor for tensor in file.tensors.values() if len(tensor.shape) > 1]
    num_weights = sum(math.prod(tensor.shape) for tensor in matrices)
    num_bytes = sum(
        math.prod(tensor.shape[:-1]) * tensor.type.row_bytes(tensor.shape[-1]) for tensor in matrices
    )
    return 8.0 * num_bytes / max(num_weights, 1)


def requantised(source: Path, kind: str) -> Path:
    """The file of `source` with its matrices as `kind`; made on the first call, which takes seconds.

    It belongs to this very file: another size or time of change makes another copy. Raises ModelError where
    the source cannot be converted or the cache not be written.
    """
    try:
        facts = source.stat()
        identity = f"{source.resolve()}\0{facts.st_size}\0{facts.st_mtime_ns}\0{kind}"
        folder = cache_dir() / "requantised"
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ModelError(f"{source}: no copy at lower precision: {error.strerror}") from None
    digest = hashlib.sha256(identity.encode()).hexdigest()[:12]
    copy = folder / f"{source.stem}-{kind}-{digest}.gguf"
    if not copy.exists():
        unfinished = copy.with_suffix(f".{os.getpid()}.part")
        try:
            convert(source, unfinished, kind)
            os.replace(unfinished, copy)
        except OSError as error:
            raise ModelError(f"{copy}: cannot be written: {error.strerror}") from None
        finally:
            unfinished.unlink(missing_ok=True)
    return copy

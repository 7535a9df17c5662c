"""Copies of a model file at lower precision, kept in the user cache."""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from guessahead.checkpoints.gguf import GGMLType, GGUFFile
from guessahead.errors import ModelError, ParameterError
from guessahead.files import cache_dir, check_writable
from guessahead.models.convert import convert

if TYPE_CHECKING:
    from guessahead.protocols import Engine


def bits_per_weight(file: GGUFFile) -> float:
    """The mean over all matrices: 4.5 for Q4_0 alone, 16 for F16."""
    matrices = [tensor for tensor in file.tensors.values() if len(tensor.shape) > 1]
    num_weights = sum(math.prod(tensor.shape) for tensor in matrices)
    num_bytes = sum(
        math.prod(tensor.shape[:-1]) * tensor.type.row_bytes(tensor.shape[-1]) for tensor in matrices
    )
    return 8.0 * num_bytes / max(num_weights, 1)


def requantised(source: Path, kind: str) -> Path:
    """The file of `source` with its matrices as `kind`; created by the first call, which takes seconds.

    A changed source (size or modification time) gets a new copy. Raises ModelError if the source cannot be
    converted or the cache cannot be written.
    """
    copy = _place(source, kind)
    if not copy.exists():
        try:
            copy.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ModelError(f"{source}: no copy at lower precision: {error.strerror}") from None
        convert(source, copy, kind)
    return copy


def _place(source: Path, kind: str) -> Path:
    """Where the cache keeps the copy."""
    try:
        facts = source.stat()
        identity = f"{source.resolve()}\0{facts.st_size}\0{facts.st_mtime_ns}\0{kind}"
    except OSError as error:
        raise ModelError(f"{source}: no copy at lower precision: {error.strerror}") from None
    digest = hashlib.sha256(os.fsencode(identity)).hexdigest()[:12]
    name = f"{source.stem[:40]}-{kind}-{digest}.gguf"  # of a long name, a part
    return cache_dir() / "requantised" / name


@contextlib.contextmanager
def _copy(source: Path, kind: str) -> Iterator[Path]:
    """The copy in the cache; a temporary one if the cache takes no files."""
    kept = _place(source, kind)
    if kept.exists() or _takes_files(kept.parent):
        yield requantised(source, kind)
        return
    try:
        folder = tempfile.TemporaryDirectory(prefix="guessahead-")
    except OSError as error:
        raise ModelError(f"{source}: no copy at lower precision: {error.strerror or error}") from None
    with folder as place:
        copy = Path(place) / "copy.gguf"
        convert(source, copy, kind)
        yield copy


def _takes_files(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        check_writable(folder / "new")
    except OSError:
        return False
    return True


class LowerPrecision:
    """Engines of one model's weights at lower precision, each loaded once."""

    def __init__(
        self, source: Path, name: str, bits_per_weight: float, load: Callable[[Path], Engine]
    ) -> None:
        """source: the model's file; name: for messages. bits_per_weight: of its matrices."""
        self._source, self._name, self._bits_per_weight, self._load = source, name, bits_per_weight, load
        self._loaded: dict[str, Engine] = {}

    def at(self, kind: str) -> Engine:
        """An engine of the same weights as `kind` ("Q4_1", "Q8_0"). Raises ModelError if none can be made."""
        if kind not in self._loaded:
            with _copy(self._source, kind) as copy:
                self._loaded[kind] = self._load(copy)
        return self._loaded[kind]

    def below(self, kind: str) -> Engine:
        """As `at`. Raises ParameterError for a format that is not smaller than the weights are."""
        wanted = 8.0 * GGMLType[kind].row_bytes(256) / 256
        if self._bits_per_weight <= wanted:
            raise ParameterError(
                f"{self._name!r} has {self._bits_per_weight:.1f} bits a weight already, and {kind} "
                f"would have {wanted:.1f}: leave precision out"
            )
        return self.at(kind)

"""Shards: the model's texts on disk, which later runs reuse.

A shard depends only on the model, the layers and its number, so any number of processes can fill a folder
together, and an interrupted run loses at most one shard.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Protocol

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from guessahead.errors import ModelError
from guessahead.heads.files import whole
from guessahead.training.batch import Bfloat16, Text
from guessahead.types import Int32

_VERSION: Final = "1"


class Sliceable(Protocol):
    """Rows that may be on disk."""

    def __getitem__(self, rows: slice, /) -> Bfloat16: ...


@dataclass(frozen=True, slots=True)
class Shard:
    """Concatenated texts.

    starts: int32[texts + 1], the beginning of each; the last entry is the number of tokens n.
    token_ids: int32[n]. answer: bool[n], chosen by the model as a part of an answer.
    hidden: bfloat16[n, layers, width], read in slices; zeros for a text's last token, which was not read.
    """

    starts: Int32
    token_ids: Int32
    answer: npt.NDArray[np.bool_]
    hidden: Sliceable

    @classmethod
    def of(cls, texts: list[Text]) -> Shard:
        padded = []
        for text in texts:
            missing = len(text.token_ids) - len(text.hidden)
            padded.append(np.pad(text.hidden, ((0, missing), (0, 0), (0, 0))))
        return cls(
            np.cumsum([0, *(len(text.token_ids) for text in texts)], dtype=np.int32),
            np.concatenate([text.token_ids for text in texts]),
            np.concatenate([text.answer for text in texts]),
            np.concatenate(padded),
        )


class Store:
    """A folder of shards of one model. origin: identifies the model and the layers."""

    def __init__(self, folder: Path, origin: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._origin = folder, origin

    def path(self, number: int) -> Path:
        return self._folder / f"shard-{number:05}.safetensors"

    def present(self) -> list[Path]:
        """All finished shards, by number. Raises ModelError if one is of another origin."""
        paths = sorted(self._folder.glob("shard-*.safetensors"))
        for path in paths:
            with _opened(path) as file:
                if (file.metadata() or {}).get("origin") != self._stamp:
                    raise ModelError(f"{path} was made with another model or other layers; use a new folder")
        return paths

    def fill(self, num: int, make: Callable[[int], list[Text]]) -> Iterator[int]:
        """Create the missing ones of the first `num` shards; yields the number of each when it is present.

        A shard that another process is creating is left to it.
        """
        for number in range(num):
            path = self.path(number)
            claim = path.with_suffix(".claim")
            if not path.exists() and (held := _claim(claim)) is not None:
                with held:
                    try:
                        if not path.exists():
                            self._save(Shard.of(make(number)), path)
                    finally:
                        claim.unlink(missing_ok=True)
            if path.exists():
                yield number

    @property
    def _stamp(self) -> str:
        return f"{_VERSION} {self._origin}"

    def _save(self, shard: Shard, path: Path) -> None:
        arrays: dict[str, npt.NDArray[Any]] = {
            "starts": shard.starts,
            "token_ids": shard.token_ids,
            "answer": shard.answer.astype(np.uint8),
            "hidden": shard.hidden[:],
        }
        with whole(path) as unfinished:
            save_file(arrays, unfinished, {"origin": self._stamp})


def read(path: Path) -> Shard:
    """Open a shard; its hidden states stay on disk until they are read."""
    with _opened(path) as file:
        starts, token_ids, answer = (file.get_tensor(name) for name in ("starts", "token_ids", "answer"))
        hidden = file.get_slice("hidden")
    return Shard(starts, token_ids, answer.astype(np.bool_), hidden)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """An open file of tensors. Raises ModelError if it is damaged, or its file system has no mappings."""
    try:
        with safe_open(path, "numpy") as file:
            yield file
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{path}: cannot be read: {error}") from None


def _claim(path: Path) -> IO[str] | None:
    """Claim a path: the locked file, to be removed and then closed; None while another process holds it.

    Only the lock on the file counts, which ends with its process: a file left by a killed process has no
    effect.
    """
    while True:
        stream = path.open("a")
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            stream.close()
            return None
        except OSError:  # a file system without locks: two processes may then make the same shard
            return stream
        if _is_at(stream, path):
            return stream
        stream.close()  # its holder has removed it meanwhile; the next claim is another file


def _is_at(stream: IO[str], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(stream.fileno()), path.stat())
    except FileNotFoundError:
        return False

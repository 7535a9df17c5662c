"""What the model wrote, on disk: shards that later runs reuse.

A shard depends on the model, the layers and its number alone, so any number of processes can fill a folder
together, and an interrupted run loses at most the shard it was writing.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Protocol

import numpy as np
import numpy.typing as npt
from safetensors import safe_open
from safetensors.numpy import save_file

from guessahead.errors import ModelError
from guessahead.training.batch import Bfloat16, Text
from guessahead.types import Int32

_VERSION: Final = "1"


class Sliceable(Protocol):
    """Rows that may lie on disk."""

    def __getitem__(self, rows: slice, /) -> Bfloat16: ...


@dataclass(frozen=True, slots=True)
class Shard:
    """Texts, one behind the other.

    starts: int32[texts + 1], where each begins; the last entry is the number of tokens n.
    token_ids: int32[n]. answer: bool[n], chosen by the model as a part of an answer.
    hidden: bfloat16[n, layers, width], to be cut into slices; zeros for a text's last token, which was never
        read.
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
    """A folder of shards of one model. origin: says whose hidden states of which layers they are."""

    def __init__(self, folder: Path, origin: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._origin = folder, origin

    def path(self, number: int) -> Path:
        return self._folder / f"shard-{number:05}.safetensors"

    def present(self) -> list[Path]:
        """All finished shards, by number. Raises ModelError where one is of another origin."""
        paths = sorted(self._folder.glob("shard-*.safetensors"))
        for path in paths:
            with safe_open(path, "numpy") as file:
                if (file.metadata() or {}).get("origin") != self._stamp:
                    raise ModelError(f"{path} was made with another model or other layers; take a new folder")
        return paths

    def fill(self, num: int, make: Callable[[int], list[Text]]) -> Iterator[int]:
        """Make those of the first `num` shards that are missing; yields the number of each when it is there.

        A shard that another process is making is left to it.
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
                        claim.unlink()
            if path.exists():
                yield number

    @property
    def _stamp(self) -> str:
        return f"{_VERSION} {self._origin}"

    def _save(self, shard: Shard, path: Path) -> None:
        partial = path.with_suffix(".partial")
        arrays: dict[str, npt.NDArray[Any]] = {
            "starts": shard.starts,
            "token_ids": shard.token_ids,
            "answer": shard.answer.astype(np.uint8),
            "hidden": shard.hidden[:],
        }
        save_file(arrays, partial, {"origin": self._stamp})
        partial.replace(path)


def read(path: Path) -> Shard:
    """A shard; its hidden states stay on disk until they are asked for."""
    with safe_open(path, "numpy") as file:
        starts, token_ids, answer = (file.get_tensor(name) for name in ("starts", "token_ids", "answer"))
        hidden = file.get_slice("hidden")
    return Shard(starts, token_ids, answer.astype(np.bool_), hidden)


def _claim(path: Path) -> IO[str] | None:
    """The claim, to be removed and then closed; None while another process holds it.

    What counts is the lock on the file, which goes with its process: a file that a killed one has left behind
    binds nobody, whatever is in it.
    """
    while True:
        stream = path.open("a")
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            stream.close()
            return None
        if _is_at(stream, path):
            return stream
        stream.close()  # its holder has removed it meanwhile, and the next claim is another file


def _is_at(stream: IO[str], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(stream.fileno()), path.stat())
    except FileNotFoundError:
        return False

"""Models in several GGUF files, as `llama-gguf-split` writes them: NAME-00001-of-00003.gguf and so on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, TypeVar

from guessahead.checkpoints.gguf.types import MetadataValue
from guessahead.errors import ModelError

_NUMBER, _COUNT, _TENSORS = "split.no", "split.count", "split.tensors.count"
_NAME: Final = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.gguf", re.DOTALL)
_MOST: Final = 99_999
_Value = TypeVar("_Value")


def without_split(metadata: Mapping[str, _Value]) -> dict[str, _Value]:
    """What is left where all parts are one: a file that is written from it is no part."""
    return {key: value for key, value in metadata.items() if not key.startswith("split.")}


def other_parts(path: Path, metadata: Mapping[str, MetadataValue]) -> Iterator[tuple[int, Path]]:
    """Numbers and paths of the parts behind the first, `path`; nothing where the model lies in one file.

    Errors: ModelError where `path` is another part than the first, or a part is missing.
    """
    count, number = (_whole(path, metadata, key) for key in (_COUNT, _NUMBER))
    if count < 2:
        return
    match = _NAME.fullmatch(path.name)
    if match is None or int(match[3]) != count:
        raise ModelError(
            f"{path}: a part of a model in {count} files, whose name must end in -00001-of-{count:05}.gguf"
        )
    first = path.with_name(f"{match[1]}-00001-of-{count:05}.gguf")
    if number != 0:
        raise ModelError(
            f"{path}: part {number + 1} of a model in {count} files; name the first, {first.name}"
        )
    others = [path.with_name(f"{match[1]}-{i + 1:05}-of-{count:05}.gguf") for i in range(1, count)]
    for other in others:
        if not other.exists():
            raise ModelError(f"{path}: a part of the model is missing: {other.name} (of {count} files)")
    yield from enumerate(others, 1)


def check_part(
    path: Path, number: int, first: Mapping[str, MetadataValue], own: Mapping[str, MetadataValue]
) -> None:
    """Raise a ModelError unless `own` are the numbers of part `number` of the model that `first` begins."""
    found = (_whole(path, own, _NUMBER), _whole(path, own, _COUNT))
    expected = (number, _whole(path, first, _COUNT))
    if found != expected:
        raise ModelError(
            f"{path}: it says that it is part {found[0] + 1} of {found[1]}, not {number + 1} of {expected[1]}"
        )


def check_number_of_tensors(path: Path, metadata: Mapping[str, MetadataValue], found: int) -> None:
    """Raise a ModelError where the parts hold fewer or more tensors than the first says."""
    expected = _whole(path, metadata, _TENSORS)
    if _TENSORS in metadata and expected != found:
        raise ModelError(f"{path}: its parts hold {found} tensors; it says that there are {expected}")


def _whole(path: Path, metadata: Mapping[str, MetadataValue], key: str) -> int:
    value = metadata.get(key, 0)
    if type(value) is not int or not 0 <= value <= (1 << 31 if key == _TENSORS else _MOST):
        raise ModelError(f"{path}: metadata {key!r} is not a number of parts")
    return value

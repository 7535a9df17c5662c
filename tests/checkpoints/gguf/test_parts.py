"""Models in several files; data that belongs to no tensor; pointers in place of files."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from guessahead import load
from guessahead.checkpoints.gguf import GGUFFile, NewTensor, TensorInfo, write_gguf
from guessahead.errors import ModelError
from guessahead.models.convert import convert
from tests.support.tiny import tiny_gguf


def name(number: int, count: int, stem: str = "m") -> str:
    return f"{stem}-{number:05}-of-{count:05}.gguf"


def new(tensors: Iterable[TensorInfo]) -> list[NewTensor]:
    return [NewTensor(t.name, t.type, t.shape, lambda t=t: (t.data,)) for t in tensors]


def split(source: Path, count: int, **changes: object) -> Path:
    """`source` as llama-gguf-split would cut it; the first part's path. changes: of its numbers."""
    with GGUFFile.open(source) as file:
        tensors = list(file.tensors.values())
        for i in range(count):
            numbers = {"split.no": i, "split.count": count, "split.tensors.count": len(tensors)}
            metadata = {**(file.metadata if i == 0 else {}), **numbers, **changes}
            typed = {
                key: np.uint16(value) if key in ("split.no", "split.count") else value
                for key, value in metadata.items()
            }
            write_gguf(source.with_name(name(i + 1, count)), typed, new(tensors[i::count]))
    return source.with_name(name(1, count))


@pytest.mark.parametrize("count", [2, 3])
def test_all_parts_are_read(tmp_path: Path, count: int) -> None:
    whole = tiny_gguf(tmp_path / "tiny.gguf").path
    first = split(whole, count)
    with GGUFFile.open(whole) as one, GGUFFile.open(first) as other:
        assert dict(one.metadata).keys() == dict(other.metadata).keys()
        assert one.tensors.keys() == other.tensors.keys()
    a, b = load(whole, threads=1), load(first, threads=1)
    assert a.generate("the", max_tokens=8).token_ids == b.generate("the", max_tokens=8).token_ids


def test_convert_writes_a_whole_model(tmp_path: Path) -> None:
    whole = tiny_gguf(tmp_path / "tiny.gguf").path
    first = split(whole, 2)
    convert(first, tmp_path / "out.gguf", "Q8_0")
    first.unlink()
    with GGUFFile.open(tmp_path / "out.gguf") as file, GGUFFile.open(whole) as before:
        assert file.tensors.keys() == before.tensors.keys()
        assert not [key for key in file.metadata if key.startswith("split.")]
    with pytest.raises(ModelError, match=f"part 2 of a model in 2 files; name the first, {name(1, 2)}"):
        convert(whole.with_name(name(2, 2)), tmp_path / "part.gguf", "Q8_0")
    assert not (tmp_path / "part.gguf").exists()


def test_parts_that_do_not_fit(tmp_path: Path) -> None:
    whole = tiny_gguf(tmp_path / "tiny.gguf").path
    first = split(whole, 3)
    second = whole.with_name(name(2, 3))

    def refused(words: str, path: Path = first) -> None:
        with pytest.raises(ModelError, match=words) as caught:
            GGUFFile.open(path)
        assert "\n" not in str(caught.value)

    refused(f"part 2 of a model in 3 files; name the first, {name(1, 3)}", second)
    third = whole.with_name(name(3, 3)).read_bytes()
    second.write_bytes(third)
    refused("says that it is part 3 of 3, not 2 of 3")
    second.write_bytes(whole.read_bytes())
    refused("says that it is part 1 of 0, not 2 of 3")
    second.unlink()
    refused(f"a part of the model is missing: {name(2, 3)} .of 3 files")
    refused("whose name must end in -00001-of-00003.gguf", first.rename(tmp_path / "renamed.gguf"))


def test_numbers_of_parts_that_lie(tmp_path: Path) -> None:
    whole = tiny_gguf(tmp_path / "tiny.gguf").path
    with pytest.raises(ModelError, match=r"its parts hold .* tensors; it says that there are 7"):
        GGUFFile.open(split(whole, 2, **{"split.tensors.count": 7}))
    with GGUFFile.open(whole) as file:
        write_gguf(tmp_path / "x.gguf", {"split.count": "two"}, new(file.tensors.values()))
    with pytest.raises(ModelError, match=r"'split.count' is not a number of parts"):
        GGUFFile.open(tmp_path / "x.gguf")
    with GGUFFile.open(whole) as file:
        one = list(file.tensors.values())
        for i in range(2):
            numbers = {"split.no": i, "split.count": 2}
            write_gguf(tmp_path / name(i + 1, 2, "twice"), numbers, new(one[:1]))
    with pytest.raises(ModelError, match="is in an earlier part, too"):
        GGUFFile.open(tmp_path / name(1, 2, "twice"))


def test_data_that_no_tensor_claims(tmp_path: Path) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf").path
    data = path.read_bytes()
    with GGUFFile.open(path) as file:
        num_tensors = len(file.tensors)
    for count in range(num_tensors):
        path.write_bytes(data[:8] + struct.pack("<Q", count) + data[16:])
        with pytest.raises(ModelError, match="damaged GGUF file"):
            GGUFFile.open(path)
    path.write_bytes(data + bytes(32))
    with pytest.raises(ModelError, match="belong to no tensor"):
        GGUFFile.open(path)


def test_a_gap_between_tensors(tmp_path: Path) -> None:
    path = tmp_path / "gap.gguf"
    zeros = np.zeros(8, np.float32)
    write_gguf(path, {}, [NewTensor.of(each, zeros, each_type) for each, each_type in kinds()])
    data = bytearray(path.read_bytes())
    with GGUFFile.open(path):
        pass
    place = data.index(struct.pack("<Q", 32), data.index(b"second"))  # the second one's offset
    data[place : place + 8] = struct.pack("<Q", 64)
    path.write_bytes(data + bytes(32))
    with pytest.raises(ModelError, match="32 bytes behind 'first' belong to no tensor"):
        GGUFFile.open(path)


def kinds() -> list[tuple[str, object]]:
    from guessahead.checkpoints.gguf import GGMLType

    return [("first", GGMLType.F32), ("second", GGMLType.F32)]


def test_a_pointer_in_place_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n")
    with pytest.raises(ModelError, match=r"model.gguf: only a Git LFS pointer"):
        GGUFFile.open(path)

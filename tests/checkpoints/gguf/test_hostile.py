"""Damaged files: one clear line, at once; never another exception, a hang or a large allocation."""

import os
import struct
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from guessahead.checkpoints.gguf import GGMLType, GGUFFile, NewTensor, write_gguf
from guessahead.errors import ModelError
from tests.support.tiny import tiny_gguf

MAX_BYTES = 4 << 20  # for files of a few kilobytes
U64_VALUES = (0, 1, 1 << 31, (1 << 32) - 1, 1 << 62, 1 << 63, (1 << 64) - 1)
U32_VALUES = (0, 1, 1 << 16, 1 << 31, (1 << 32) - 1)


@dataclass(frozen=True)
class Field:
    """A number in the header that says how to read on. what: length, count, type, dimension, offset, ..."""

    what: str
    position: int
    format: str


def small_file(path: Path) -> bytes:
    """A file with every kind of record, a few hundred bytes of header."""
    metadata = {
        "general.architecture": "llama",
        "a.count": 3,
        "a.flag": True,
        "a.double": np.float64(1.5),
        "a.texts": ["one", "", "three"],
        "a.numbers": np.arange(5, dtype=np.int32),
        "a.flags": np.array([True, False]),
    }
    values = np.linspace(-1, 1, 4 * 64, dtype=np.float32).reshape(4, 64)
    tensors = [
        NewTensor.of("vector", values[0], GGMLType.F32),
        NewTensor.of("matrix", values, GGMLType.Q4_1),
        NewTensor.of("cube", values.reshape(2, 2, 64), GGMLType.F16),
    ]
    write_gguf(path, metadata, tensors)
    return path.read_bytes()


def fields(data: bytes) -> list[Field]:
    """All structural numbers of a well-formed file, found by a second, naive parser."""
    found: list[Field] = []
    position = 4

    def number(what: str, code: str) -> int:
        nonlocal position
        found.append(Field(what, position, f"<{code}"))
        (value,) = struct.unpack_from(f"<{code}", data, position)
        position += struct.calcsize(code)
        return value

    def text(what: str) -> None:
        nonlocal position
        length = number(f"length of {what}", "Q")
        position += length

    sizes = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
    number("version", "I")
    num_tensors = number("count of tensors", "Q")
    num_values = number("count of values", "Q")
    for _ in range(num_values):
        text("key")
        kind = number("value type", "I")
        if kind == 8:
            text("value")
        elif kind == 9:
            element = number("element type", "I")
            for _ in range(count := number("count of elements", "Q")):
                if element == 8:
                    text("element")
            if element != 8:
                position += count * sizes[element]
        else:
            position += sizes[kind]
    for _ in range(num_tensors):
        text("name")
        for _ in range(number("number of dimensions", "I")):
            number("dimension", "Q")
        number("tensor type", "I")
        number("offset", "Q")
    found.append(Field("end", position, ""))
    return found


@contextmanager
def small_memory() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < MAX_BYTES
    finally:
        tracemalloc.stop()


def outcome(path: Path) -> str:
    """The error's message; "" for a file that can be used, all of whose tensors then lie within it."""
    start = time.process_time()
    try:
        with GGUFFile.open(path) as file:
            for tensor in file.tensors.values():
                assert len(tensor.data) == tensor.num_bytes > 0
                assert tensor.num_bytes == np.prod(tensor.shape[:-1]) * tensor.type.row_bytes(
                    tensor.shape[-1]
                )
        message = ""
    except ModelError as error:
        message = str(error)
        assert path.name in message
        assert len(message.splitlines()) == 1
        assert len(message) < 400
    assert time.process_time() - start < 2
    return message


def test_cut_anywhere(tmp_path: Path) -> None:
    path = tmp_path / "cut.gguf"
    data = small_file(path)
    with GGUFFile.open(path) as file:
        last = file.tensors["cube"].data.tobytes()
    end = data.rindex(last) + len(last)
    with small_memory():
        for size in range(len(data) - 1, -1, -1):
            os.truncate(path, size)
            assert (outcome(path) == "") == (size >= end), size


def test_a_real_header_cut_at_random(tmp_path: Path) -> None:
    path = tiny_gguf(tmp_path / "cut.gguf", "qwen2", format="Q8_0").path
    sizes = np.random.default_rng(0).choice(path.stat().st_size - 64, 300, replace=False)
    for size in sorted((int(size) for size in sizes), reverse=True):
        os.truncate(path, size)
        assert outcome(path), size


def test_structural_numbers_set_to_extremes(tmp_path: Path) -> None:
    path = tmp_path / "bad.gguf"
    data = small_file(path)
    found = fields(data)
    assert len(found) == 46
    harmless = []
    with small_memory():
        for field in found[:-1]:
            for value in U64_VALUES if field.format == "<Q" else U32_VALUES:
                changed = bytearray(data)
                struct.pack_into(field.format, changed, field.position, value)
                if changed == data:
                    continue
                path.write_bytes(changed)
                if not outcome(path):
                    harmless.append((field.what, value))
    # What is still a file: truth values taken for bytes.
    assert {what for what, _ in harmless} == {"value type", "element type"}
    assert {value for _, value in harmless} <= {0, 1}
    assert len(harmless) == 4


@pytest.mark.parametrize(
    ("what", "value", "words"),
    [
        ("count of tensors", 1 << 63, "claims"),
        ("count of values", 1 << 20, "more than it can hold"),
        ("length of key", 1 << 63, "ends inside"),
        ("length of key", 0, "empty"),
        ("length of value", (1 << 64) - 1, "ends inside"),
        ("length of element", 1 << 62, "ends inside string 0 of the value of 'a.texts'"),
        ("count of elements", 1 << 40, "more than it can hold"),
        ("value type", 13, "unknown value type 13"),
        ("element type", 9, "array of arrays"),
        ("number of dimensions", 5, "5 dimensions"),
        ("number of dimensions", 0, "0 dimensions"),
        ("dimension", 0, "dimension of 0"),
        ("dimension", 1 << 62, "incomplete download"),
        ("tensor type", 4, "unknown type 4"),
        ("tensor type", 12, "'vector' has rows of 64, not a multiple of Q4_K's block of 256"),
        ("offset", 1, "not aligned"),
        ("offset", 512, "overlap"),
        ("offset", 1 << 40, "incomplete download"),
    ],
)
def test_the_line_says_what_is_wrong(tmp_path: Path, what: str, value: int, words: str) -> None:
    path = tmp_path / "bad.gguf"
    data = bytearray(small_file(path))
    field = next(field for field in fields(bytes(data)) if field.what == what)
    struct.pack_into(field.format, data, field.position, value)
    path.write_bytes(data)
    assert words in outcome(path)


def test_dimensions_whose_product_overflows(tmp_path: Path) -> None:
    """2^32 x 2^32 elements of 2 bytes are 2^65 bytes, 0 in 64-bit arithmetic."""
    path = tmp_path / "bad.gguf"
    data = bytearray(small_file(path))
    dimensions = [field for field in fields(bytes(data)) if field.what == "dimension"]
    for field in dimensions[-3:-1]:
        struct.pack_into("<Q", data, field.position, 1 << 32)
    path.write_bytes(data)
    assert "'cube' needs bytes" in outcome(path)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (b"a.flags", b"a.texts", "'a.texts' occurs twice"),
        (b"matrix", b"vector", "'vector' occurs twice"),
        (b"three", b"\xff\xfe\xff\xfe\xff", "not UTF-8"),
        (b"llama", b"\xc3\x28\xa0\xa1\xe2", "not UTF-8"),
        (b"a.numbers", b"a.\xffumbers", "not UTF-8"),
    ],
)
def test_duplicates_and_broken_text(tmp_path: Path, old: bytes, new: bytes, words: str) -> None:
    path = tmp_path / "bad.gguf"
    data = small_file(path)
    path.write_bytes(data.replace(old, new))
    assert words in outcome(path)


@pytest.mark.parametrize("alignment", [0, 24, -32, 1 << 31, 32.0, "32", np.uint64(1 << 63)])
def test_impossible_alignments(tmp_path: Path, alignment: object) -> None:
    path = tmp_path / "bad.gguf"
    key = "general.alignmenx"  # the writer sets the real one itself
    write_gguf(path, {key: alignment}, [NewTensor.of("vector", np.ones(4, np.float32), GGMLType.F32)])
    path.write_bytes(path.read_bytes().replace(key.encode(), b"general.alignment"))
    assert outcome(path)


def test_a_truth_value_of_two(tmp_path: Path) -> None:
    path = tmp_path / "bad.gguf"
    write_gguf(path, {"flag": np.uint8(2)}, [])
    data = bytearray(path.read_bytes())
    data[24 + 8 + 4] = 7
    path.write_bytes(data)
    assert "truth value" in outcome(path)


def test_random_bytes_changed(tmp_path: Path) -> None:
    path = tmp_path / "bad.gguf"
    data = small_file(path)
    end = fields(data)[-1].position
    random = np.random.default_rng(0)
    refused = 0
    with small_memory():
        for _ in range(3000):
            changed = bytearray(data)
            for position in random.integers(0, end, random.integers(1, 4)):
                changed[position] = random.integers(0, 256)
            path.write_bytes(changed)
            refused += bool(outcome(path))
    assert refused > 1500


def test_a_vocabulary_that_claims_the_whole_file(tmp_path: Path) -> None:
    """Empty strings are the cheapest to claim: eight bytes each, and that many there may be."""
    path = tmp_path / "bad.gguf"
    write_gguf(path, {"texts": ["x" * 100_000]}, [])
    data = bytearray(path.read_bytes())
    field = next(field for field in fields(bytes(data)) if field.what == "count of elements")
    struct.pack_into("<Q", data, field.position, 12_500)
    path.write_bytes(data)
    with small_memory():
        assert "ends inside string 1" in outcome(path)


def test_what_is_no_gguf_file(tmp_path: Path) -> None:
    path = tmp_path / "other.gguf"
    for data in (b"", b"GGUF", b"PK\3\4" + bytes(100), b"GGML" + bytes(100)):
        path.write_bytes(data)
        assert "not a GGUF file" in outcome(path)
    assert "cannot be read: No such file" in outcome(tmp_path / "missing.gguf")
    assert "not a file" in outcome(tmp_path)
    assert "cannot be read" in outcome(Path(f"{tmp_path}/nul\0.gguf"))
    os.mkfifo(tmp_path / "pipe.gguf")
    assert "not a file" in outcome(tmp_path / "pipe.gguf")

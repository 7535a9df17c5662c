"""Reading GGUF files: what is there comes back, as the `gguf` package sees it, quickly and memory-mapped."""

import gc
import mmap
import time
from collections import Counter
from pathlib import Path

import gguf
import numpy as np
import pytest

from guessahead.checkpoints.gguf import GGMLType, GGUFFile, NewTensor, write_gguf
from guessahead.errors import ModelError
from guessahead.models.catalogue import DEFAULT_MODEL
from guessahead.models.download import fetch
from tests.support.tiny import tiny_gguf


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return tiny_gguf(tmp_path / "tiny.gguf", "qwen2", formats={"output": "Q8_0", "attn_v": "Q5_0"}).path


def test_agrees_with_the_gguf_package(tiny: Path) -> None:
    theirs = gguf.GGUFReader(tiny)
    with GGUFFile.open(tiny) as ours:
        assert list(ours.tensors) == [tensor.name for tensor in theirs.tensors]
        for tensor in theirs.tensors:
            mine = ours.tensors[tensor.name]
            assert mine.shape == tuple(int(size) for size in reversed(tensor.shape))
            assert (mine.type.name, mine.num_bytes) == (tensor.tensor_type.name, tensor.n_bytes)
            assert mine.data.tobytes() == tensor.data.tobytes()
        fields = {key: field for key, field in theirs.fields.items() if not key.startswith("GGUF.")}
        assert list(ours.metadata) == list(fields)
        for key, value in ours.metadata.items():
            got = value.tolist() if isinstance(value, np.ndarray) else value
            assert got == fields[key].contents(), key


def test_block_sizes_are_those_of_the_gguf_package() -> None:
    for kind in GGMLType:
        theirs = gguf.GGMLQuantizationType[kind.name]
        assert (kind.value, (kind.block_size, kind.block_bytes)) == (
            theirs.value,
            gguf.GGML_QUANT_SIZES[theirs],
        )


@pytest.mark.model
def test_the_default_model_is_what_the_catalogue_says() -> None:
    with GGUFFile.open(fetch(DEFAULT_MODEL)) as file:
        counts = Counter(tensor.type.name for tensor in file.tensors.values())
        assert counts == {"Q4_1": 210, "Q8_0": 1, "F32": 61}
        assert file.tensors["token_embd.weight"].shape == (49152, 576)
        assert len(file.metadata["tokenizer.ggml.tokens"]) == 49152


def test_all_value_types_come_back(tmp_path: Path) -> None:
    numbers = {name: np.array([1, 100], name) for name in ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8")}
    values = {
        "text": "Grüße, \N{FOX FACE}\n",
        "empty": "",
        "true": True,
        "false": False,
        "count": 7,
        "negative": -7,
        "large": 1 << 40,
        "half": 0.5,
        "double": np.float64(0.1),
        "texts": ["a", "", "ß"],
        "no texts": [],
        "flags": np.array([True, False]),
        "floats": np.array([0.5, -1.5], np.float32),
        "doubles": np.array([0.1]),
        "no numbers": np.array([], np.int32),
        **numbers,
    }
    write_gguf(tmp_path / "values.gguf", values, [])
    with GGUFFile.open(tmp_path / "values.gguf") as file:
        assert list(file.metadata) == list(values)
        for key, value in values.items():
            got = file.metadata[key]
            if isinstance(value, np.ndarray):
                assert isinstance(got, np.ndarray)
                assert got.dtype == value.dtype
                np.testing.assert_array_equal(got, value)
            else:
                assert got == value
                assert isinstance(value, np.generic) or type(got) is type(value)


def test_version_2_is_read_too(tiny: Path) -> None:
    data = bytearray(tiny.read_bytes())
    data[4] = 2
    tiny.write_bytes(data)
    with GGUFFile.open(tiny) as file:
        assert file.version == 2
        assert "token_embd.weight" in file.tensors


@pytest.mark.parametrize(
    ("version", "words"),
    [
        (b"\1\0\0\0", "version 1 "),
        (b"\4\0\0\0", "version 4 "),
        (b"\0\0\0\3", "big-endian"),
        (b"\0\0\0\0", "version 0 "),
    ],
)
def test_other_versions_are_refused_by_name(tiny: Path, version: bytes, words: str) -> None:
    data = tiny.read_bytes()
    tiny.write_bytes(data[:4] + version + data[8:])
    with pytest.raises(ModelError, match=words):
        GGUFFile.open(tiny)


def test_alignment_of_the_file_is_honoured(tmp_path: Path) -> None:
    path = tmp_path / "aligned.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_custom_alignment(256)
    first, second = np.arange(3, dtype=np.float32), np.arange(5, dtype=np.float32)
    writer.add_tensor("first", first)
    writer.add_tensor("second", second)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with GGUFFile.open(path) as file:
        assert file.tensors["first"].data.tobytes() == first.tobytes()
        assert file.tensors["second"].data.tobytes() == second.tobytes()


def test_data_is_a_read_only_view_that_outlives_the_file(tiny: Path) -> None:
    with GGUFFile.open(tiny) as file:
        view = file.tensors["output_norm.weight"].data
        expected = view.tobytes()
    assert not file.tensors
    del file
    gc.collect()
    assert view.tobytes() == expected
    assert not view.flags.writeable
    base = view
    while isinstance(base, np.ndarray):
        base = base.base
    assert isinstance(base.obj if isinstance(base, memoryview) else base, mmap.mmap)


def test_a_large_vocabulary_is_read_in_no_time(tmp_path: Path) -> None:
    tokens = [f"token{index}" for index in range(152_000)]
    merges = [f"to ken{index}" for index in range(151_000)]
    write_gguf(tmp_path / "large.gguf", {"tokens": tokens, "merges": merges}, [])
    start = time.process_time()
    with GGUFFile.open(tmp_path / "large.gguf") as file:
        seconds = time.process_time() - start
        assert (file.metadata["tokens"], file.metadata["merges"]) == (tokens, merges)
    assert seconds < 0.5


def test_tensors_of_one_to_four_dimensions(tmp_path: Path) -> None:
    shapes = [(3,), (2, 3), (4, 2, 3), (5, 4, 2, 3)]
    tensors = [
        NewTensor.of(
            f"t{len(shape)}", np.arange(np.prod(shape), dtype=np.float32).reshape(shape), GGMLType.F32
        )
        for shape in shapes
    ]
    write_gguf(tmp_path / "shapes.gguf", {}, tensors)
    with GGUFFile.open(tmp_path / "shapes.gguf") as file:
        assert [tensor.shape for tensor in file.tensors.values()] == shapes
        assert file.tensors["t4"].data.view("<f4")[-1] == 119

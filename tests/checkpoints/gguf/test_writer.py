"""Writing GGUF files: other readers understand them, and a file appears whole or not at all."""

from collections.abc import Iterator
from pathlib import Path

import gguf
import numpy as np
import pytest

from guessahead.checkpoints.gguf import Encoded, GGMLType, GGUFFile, NewTensor, write_gguf
from guessahead.checkpoints.gguf.types import Bytes
from guessahead.errors import ModelError, ParameterError

VALUES = np.linspace(-1, 1, 3 * 64, dtype=np.float32).reshape(3, 64)


def test_the_gguf_package_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    tensors = [
        NewTensor.of("odd", VALUES[0, :5], GGMLType.F32),
        NewTensor.of("matrix", VALUES, GGMLType.Q8_0),
        NewTensor.of("half", VALUES, GGMLType.F16),
    ]
    write_gguf(path, {"general.architecture": "llama", "n": 3, "words": ["a", "b"]}, tensors)
    reader = gguf.GGUFReader(path)
    assert reader.fields["general.architecture"].contents() == "llama"
    assert reader.fields["words"].contents() == ["a", "b"]
    assert [tensor.name for tensor in reader.tensors] == ["odd", "matrix", "half"]
    np.testing.assert_array_equal(reader.tensors[0].data, VALUES[0, :5])
    dequantized = gguf.quants.dequantize(reader.tensors[1].data, gguf.GGMLQuantizationType.Q8_0)
    np.testing.assert_allclose(dequantized, VALUES, atol=0.005)
    np.testing.assert_array_equal(reader.tensors[2].data, VALUES.astype(np.float16))
    assert all(tensor.data_offset % 32 == 0 for tensor in reader.tensors)


def test_encoded_values_are_copied_as_they_stand(tmp_path: Path) -> None:
    first, second = tmp_path / "first.gguf", tmp_path / "second.gguf"
    write_gguf(first, {"tiny": np.uint8(3), "wide": np.float64(0.1), "list": np.array([1, 2], np.int16)}, [])
    with GGUFFile.open(first) as file:
        write_gguf(second, {key: Encoded(value) for key, value in file.encoded.items()}, [])
    assert second.read_bytes() == first.read_bytes()


def test_the_writer_sets_its_own_alignment(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    write_gguf(path, {"general.alignment": 4096}, [NewTensor.of("matrix", VALUES, GGMLType.F32)])
    with GGUFFile.open(path) as file:
        assert "general.alignment" not in file.metadata
        assert file.tensors["matrix"].data.tobytes() == VALUES.tobytes()


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"before")

    def breaks() -> Iterator[Bytes]:
        yield VALUES.view(np.uint8).reshape(-1)[:64]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_gguf(path, {}, [NewTensor("matrix", GGMLType.F32, VALUES.shape, breaks)])
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("model.gguf", b"before")]


def test_a_wrong_number_of_bytes_is_refused(tmp_path: Path) -> None:
    short = NewTensor("matrix", GGMLType.F32, (3, 64), lambda: (VALUES.view(np.uint8).reshape(-1)[:-4],))
    with pytest.raises(ParameterError, match="'matrix'"):
        write_gguf(tmp_path / "model.gguf", {}, [short])
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be written: No such file or directory"):
        write_gguf(tmp_path / "nowhere" / "model.gguf", {}, [])


@pytest.mark.parametrize(
    "value", [None, 1 << 64, -(1 << 63) - 1, 1j, ["a", 1], np.zeros((2, 2)), np.array(["a"]), {"a": 1}]
)
def test_values_gguf_has_no_type_for_are_refused(tmp_path: Path, value: object) -> None:
    with pytest.raises(ParameterError, match="'key'"):
        write_gguf(tmp_path / "model.gguf", {"key": value}, [])
    assert not list(tmp_path.iterdir())

"""Conversion to another precision: exact where it can be, close where it cannot, bounded in memory."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from guessahead.checkpoints.gguf import (
    CONVERTIBLE,
    GGMLType,
    GGUFFile,
    NewTensor,
    dequantize,
    quantize,
    step_sizes,
    write_gguf,
)
from guessahead.errors import ModelError, ParameterError
from guessahead.models.convert import convert, parse_type
from guessahead.types import Float32
from tests.support.tiny import TinyModel, tiny_gguf


def values_of(path: Path) -> dict[str, Float32]:
    with GGUFFile.open(path) as file:
        return {
            name: dequantize(tensor.data, tensor.type).reshape(tensor.shape)
            for name, tensor in file.tensors.items()
        }


@pytest.fixture
def tiny(tmp_path: Path) -> TinyModel:
    return tiny_gguf(tmp_path / "tiny.gguf", "qwen2", width=256, format="Q5_0", formats={"attn_v": "Q4_1"})


@pytest.mark.parametrize("kind", CONVERTIBLE, ids=lambda kind: kind.name)
def test_every_format(tmp_path: Path, tiny: TinyModel, kind: GGMLType) -> None:
    report = convert(tiny.path, tmp_path / "out.gguf", kind.name.lower())
    assert (report.type, report.num_tensors, report.fallbacks) == (kind, len(tiny.weights), {})
    with GGUFFile.open(report.path) as file:
        for name, values in tiny.weights.items():
            tensor = file.tensors[name]
            wanted = kind if values.ndim == 2 else GGMLType.F32
            assert (tensor.type, tensor.shape) == (wanted, values.shape)
            np.testing.assert_array_equal(tensor.data, quantize(values, wanted))


def test_metadata_is_kept_to_the_byte(tmp_path: Path, tiny: TinyModel) -> None:
    convert(tiny.path, tmp_path / "out.gguf", "BF16")
    with GGUFFile.open(tiny.path) as before, GGUFFile.open(tmp_path / "out.gguf") as after:
        assert after.metadata["general.file_type"] == 32
        assert {**after.encoded, "general.file_type": b""} == {**before.encoded, "general.file_type": b""}


def test_float32_is_exact_and_leads_back(tmp_path: Path, tiny: TinyModel) -> None:
    convert(tiny.path, tmp_path / "full.gguf", GGMLType.F32)
    for name, values in values_of(tmp_path / "full.gguf").items():
        np.testing.assert_array_equal(values, tiny.weights[name])
    convert(tmp_path / "full.gguf", tmp_path / "back.gguf", GGMLType.Q5_0)
    back = values_of(tmp_path / "back.gguf")
    np.testing.assert_array_equal(back["output.weight"], tiny.weights["output.weight"])


def test_rows_that_do_not_fit_fall_back_by_name(tmp_path: Path) -> None:
    narrow = tiny_gguf(tmp_path / "narrow.gguf", width=96, ffn=256, heads=4, kv_heads=2)
    report = convert(narrow.path, tmp_path / "out.gguf", "Q4_K")
    assert report.fallbacks["token_embd.weight"] is GGMLType.Q5_0
    assert "blk.0.ffn_down.weight" not in report.fallbacks
    with GGUFFile.open(report.path) as file:
        for name, tensor in file.tensors.items():
            if len(tensor.shape) == 2:
                assert tensor.type is report.fallbacks.get(name, GGMLType.Q4_K)
    odd = NewTensor.of("odd", np.ones((2, 48), np.float32), GGMLType.F32)
    write_gguf(tmp_path / "odd.gguf", {}, [odd])
    report = convert(tmp_path / "odd.gguf", tmp_path / "out.gguf", "Q6_K")
    assert report.fallbacks == {"odd": GGMLType.F16}


def test_noise_is_seeded_and_half_a_step(tmp_path: Path, tiny: TinyModel) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        convert(tiny.path, tmp_path / name, "F32", noise_seed=seed)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    first, other = values_of(tmp_path / "a"), values_of(tmp_path / "c")
    with GGUFFile.open(tiny.path) as file:
        for name, tensor in file.tensors.items():
            noise = (first[name] - tiny.weights[name]).reshape(-1)
            steps = step_sizes(tensor.data, tensor.type)
            assert np.all(np.abs(noise) <= 0.5001 * steps + 1e-7)
            if tensor.type is not GGMLType.F32:
                relative = noise / steps
                assert abs(relative.mean()) < 0.02
                assert relative.std() == pytest.approx(1 / np.sqrt(12), rel=0.05)
                assert not np.array_equal(first[name], other[name])


def test_noise_differs_from_tensor_to_tensor(tmp_path: Path) -> None:
    same = np.linspace(-1, 1, 64 * 64, dtype=np.float32).reshape(64, 64)
    write_gguf(tmp_path / "in.gguf", {}, [NewTensor.of(name, same, GGMLType.Q8_0) for name in "ab"])
    convert(tmp_path / "in.gguf", tmp_path / "out.gguf", "F32", noise_seed=0)
    values = values_of(tmp_path / "out.gguf")
    assert not np.array_equal(values["a"], values["b"])


def test_memory_is_bounded(tmp_path: Path) -> None:
    """32 million values: 128 MB as float32, of which a few pieces are held at a time."""
    block = quantize(np.linspace(-1, 1, 1 << 20, dtype=np.float32), GGMLType.Q8_0)
    tensor = NewTensor("large", GGMLType.Q8_0, (1 << 13, 1 << 12), lambda: (block for _ in range(32)))
    write_gguf(tmp_path / "in.gguf", {}, [tensor])
    tracemalloc.start()
    convert(tmp_path / "in.gguf", tmp_path / "out.gguf", "Q4_1")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 48e6
    assert (tmp_path / "out.gguf").stat().st_size > (1 << 25) * 20 // 32


def test_progress_names_every_tensor(tmp_path: Path, tiny: TinyModel) -> None:
    calls: list[tuple[int, int, str]] = []
    convert(tiny.path, tmp_path / "out.gguf", "F16", progress=lambda *call: calls.append(call))
    assert calls == [(index, len(tiny.weights), name) for index, name in enumerate(tiny.weights)]


def test_what_cannot_be_done_is_refused_and_leaves_nothing(tmp_path: Path, tiny: TinyModel) -> None:
    target = tmp_path / "out.gguf"
    with pytest.raises(ParameterError, match=r"IQ2_XS.*Q4_K"):
        convert(tiny.path, target, "IQ2_XS")
    with pytest.raises(ParameterError, match="must not be its source"):
        convert(tiny.path, tiny.path, "F32")
    with pytest.raises(ModelError, match="No such file"):
        convert(tmp_path / "missing.gguf", target, "F32")
    with pytest.raises(ModelError, match="cannot be written"):
        convert(tiny.path, tmp_path / "nowhere" / "out.gguf", "F32")
    full = tmp_path / "full.gguf"
    convert(tiny.path, full, "F32")
    with pytest.raises(ParameterError, match="noise needs a quantised source"):
        convert(full, target, "Q8_0", noise_seed=1)
    assert not target.exists()


def test_a_source_in_another_format_is_refused_by_name(tmp_path: Path) -> None:
    raw = NewTensor("exotic", GGMLType.IQ3_S, (1, 256), lambda: (np.zeros(110, np.uint8),))
    write_gguf(tmp_path / "in.gguf", {}, [raw])
    with pytest.raises(ModelError, match="'exotic' has the format IQ3_S"):
        convert(tmp_path / "in.gguf", tmp_path / "out.gguf", "F32")


def test_values_that_do_not_fit_are_named(tmp_path: Path) -> None:
    values = np.ones((2, 32), np.float32)
    values[1, 1] = np.nan
    write_gguf(tmp_path / "in.gguf", {}, [NewTensor.of("broken", values, GGMLType.F32)])
    with pytest.raises(ModelError, match=r"in\.gguf: 'broken': values that are not finite"):
        convert(tmp_path / "in.gguf", tmp_path / "out.gguf", "Q8_0")
    assert [path.name for path in tmp_path.iterdir()] == ["in.gguf"]


def test_parse_type() -> None:
    assert parse_type("q8_0") is parse_type(GGMLType.Q8_0) is GGMLType.Q8_0
    with pytest.raises(ParameterError, match="'int3' is not a format"):
        parse_type("int3")

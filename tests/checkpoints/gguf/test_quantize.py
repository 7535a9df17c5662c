"""Tensor formats: the same bits as the `gguf` package, and encodings as good as their steps allow."""

import gguf
import numpy as np
import pytest

from guessahead.checkpoints.gguf import CONVERTIBLE, GGMLType, dequantize, quantize, step_sizes
from guessahead.errors import ParameterError
from guessahead.types import Float32

QUANTISED = [kind for kind in CONVERTIBLE if kind.block_size > 1]
BY_NAME = {"ids": lambda kind: kind.name}

# Scales that are easily got wrong, as bits: zero, smallest, subnormal, largest, infinite, not a number.
ODD_HALVES = [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00, 0xFE01]


def reference(data: np.ndarray, kind: GGMLType) -> Float32:
    rows = data.reshape(4, -1)
    with np.errstate(all="ignore"):
        return gguf.quants.dequantize(rows, gguf.GGMLQuantizationType[kind.name]).reshape(-1)


def bits(values: Float32) -> np.ndarray:
    return values.view(np.uint32)


@pytest.mark.parametrize("kind", CONVERTIBLE, **BY_NAME)
def test_dequantize_gives_the_bits_of_the_gguf_package(kind: GGMLType) -> None:
    data = np.random.default_rng(kind).integers(0, 256, kind.block_bytes * 4000, np.uint8)
    np.testing.assert_array_equal(bits(dequantize(data, kind)), bits(reference(data, kind)))


@pytest.mark.parametrize("kind", QUANTISED, **BY_NAME)
def test_odd_scales_give_the_bits_of_the_gguf_package(kind: GGMLType) -> None:
    blocks = np.random.default_rng(kind).integers(
        0, 256, (4 * len(ODD_HALVES) ** 2, kind.block_bytes), np.uint8
    )
    odd = np.array(ODD_HALVES, "<u2")
    pairs = np.stack(np.meshgrid(odd, odd), -1).reshape(-1, 2).repeat(4, axis=0)
    if kind is GGMLType.Q2_K:
        blocks[:, -4:] = pairs.copy().view(np.uint8)
    elif kind in (GGMLType.Q6_K, GGMLType.Q3_K):
        blocks[:, -2:] = pairs[:, :1].copy().view(np.uint8)
    elif kind in (GGMLType.Q4_1, GGMLType.Q5_1, GGMLType.Q4_K, GGMLType.Q5_K):
        blocks[:, :4] = pairs.copy().view(np.uint8)
    else:
        blocks[:, :2] = pairs[:, :1].copy().view(np.uint8)
    data = blocks.reshape(-1)
    np.testing.assert_array_equal(bits(dequantize(data, kind)), bits(reference(data, kind)))


@pytest.mark.parametrize("kind", CONVERTIBLE, **BY_NAME)
@pytest.mark.parametrize("scale", [0.02, 1.0, 300.0])
def test_quantize_is_within_half_a_step(kind: GGMLType, scale: float) -> None:
    values = (np.random.default_rng(0).standard_normal(256 * 200) * scale).astype(np.float32)
    data = quantize(values, kind)
    assert data.dtype == np.uint8
    assert data.size == kind.row_bytes(values.size)
    error = np.abs(dequantize(data, kind) - values)
    if kind.block_size == 1:
        relative = {GGMLType.F32: 0, GGMLType.F16: 2.0**-11, GGMLType.BF16: 2.0**-8}[kind]
        assert np.all(error <= relative * np.abs(values) + 2.0**-25)
        return
    # Half a step, but for the ends of the range, which rounding the scales themselves moves a little, and,
    # in Q5_0 and Q6_K, for the largest value of the sign that has one code less.
    steps = step_sizes(data, kind)
    assert np.mean(error <= 0.5001 * steps) > 0.95
    assert np.all(error <= 1.6 * steps)
    bounds = {"Q8_0": 0.006, "Q4_1": 0.085, "Q5_0": 0.05, "Q4_K": 0.085, "Q6_K": 0.02}
    bounds |= {"Q4_0": 0.1, "IQ4_NL": 0.1, "Q3_K": 0.17, "Q5_1": 0.042, "Q5_K": 0.042, "Q2_K": 0.4}
    bounds |= {"IQ4_XS": 0.1}
    bound = bounds[kind.name]
    assert np.sqrt(np.mean(error**2)) < bound * scale


@pytest.mark.parametrize("kind", CONVERTIBLE, **BY_NAME)
def test_quantizing_again_changes_nothing(kind: GGMLType) -> None:
    values = np.random.default_rng(1).standard_normal(256 * 100).astype(np.float32)
    once = dequantize(quantize(values, kind), kind)
    again = dequantize(quantize(once, kind), kind)
    # The scales of Q5_K have 6 bits: rounded up by a 62nd or more, they leave the last of 32 codes unused.
    assert np.mean(again != once) <= (0.005 if kind is GGMLType.Q5_K else 0.0)


@pytest.mark.parametrize("kind", QUANTISED, **BY_NAME)
@pytest.mark.parametrize("value", [0.0, 2.5, -2.5])
def test_constant_blocks(kind: GGMLType, value: float) -> None:
    values = np.full(512, value, np.float32)
    np.testing.assert_allclose(dequantize(quantize(values, kind), kind), values, rtol=0.01)


@pytest.mark.parametrize("kind", QUANTISED, **BY_NAME)
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan, 1e30])
def test_values_that_do_not_fit_are_refused(kind: GGMLType, bad: float) -> None:
    values = np.ones(512, np.float32)
    values[300] = bad
    with pytest.raises(ParameterError):
        quantize(values, kind)


def test_half_precision_refuses_overflow_but_keeps_infinity() -> None:
    with pytest.raises(ParameterError, match="65504"):
        quantize(np.array([70000], np.float32), GGMLType.F16)
    special = np.array([np.inf, -np.inf, np.nan, -0.0], np.float32)
    for kind in (GGMLType.F16, GGMLType.BF16):
        np.testing.assert_array_equal(dequantize(quantize(special, kind), kind), special)


def test_bf16_rounds_ties_to_even() -> None:
    patterns = np.array([0x3F808000, 0x3F818000, 0x3F808001, 0x3F807FFF, 0x7F7FFFFF], np.uint32)
    rounded = quantize(patterns.view(np.float32), GGMLType.BF16).view("<u2")
    assert rounded.tolist() == [0x3F80, 0x3F82, 0x3F81, 0x3F80, 0x7F80]


@pytest.mark.parametrize("kind", [kind for kind in QUANTISED if not kind.name.startswith("IQ4")], **BY_NAME)
def test_step_sizes_are_the_distances_between_codes(kind: GGMLType) -> None:
    """The values of a group, divided by its step, are whole numbers apart."""
    data = quantize(np.random.default_rng(2).standard_normal(256 * 50).astype(np.float32), kind)
    group = 16 if kind in (GGMLType.Q6_K, GGMLType.Q3_K, GGMLType.Q2_K) else 32
    values = dequantize(data, kind).reshape(-1, group).astype(np.float64)
    steps = step_sizes(data, kind).reshape(-1, group)
    assert np.all(steps == steps[:, :1])
    distances = (values - values[:, :1]) / np.where(steps > 0, steps, 1)
    np.testing.assert_allclose(distances, np.rint(distances), atol=1e-3)
    assert np.all(steps > 0)
    assert not step_sizes(np.zeros(8, np.uint8), GGMLType.F32).any()


def test_other_formats_are_refused_by_name() -> None:
    with pytest.raises(ParameterError, match="IQ2_XS tensors cannot be converted"):
        dequantize(np.zeros(74, np.uint8), GGMLType.IQ2_XS)
    with pytest.raises(ParameterError, match="IQ3_S tensors cannot be written"):
        quantize(np.zeros(256, np.float32), GGMLType.IQ3_S)

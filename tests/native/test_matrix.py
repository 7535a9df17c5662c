"""A packed matrix holds the values of the file, to the bit, and its products stay within proven bounds.

Bounds, per output element, with u = 2^-24 and gamma(n) = n u / (1 - n u) (Higham, "Accuracy and Stability of
Numerical Algorithms", chapter 3); w are the dequantised weights, x the activations:

f32 route   a chain of 32 fused multiply-adds per block of 32, then one add per block:
            error <= gamma(32 + blocks) * sum |w x|
int8 route  a block's activations are rounded to multiples of step = max |x| / 127, so off by step / 2 at
            most; what follows is exact but for two roundings per block and a few of the scales:
            error <= sum over blocks (0.5001 step * sum |w|) + gamma(2 blocks + 12) * sum (|w - m| + |m|) |x|
            where m is the part of a weight that is added to its scaled code (0 in most formats).
"""

from __future__ import annotations

import gguf
import numpy as np
import numpy.typing as npt
import pytest

from guessahead import _native
from guessahead.checkpoints.gguf import GGMLType, dequantize, quantize
from guessahead.types import Float32

Float64 = npt.NDArray[np.float64]
Bytes = npt.NDArray[np.uint8]

POOL = _native.Pool(2)
FORMATS = tuple(_native.FORMATS)
QUANTISED = tuple(name for name in FORMATS if GGMLType[name].block_size > 1)
ISAS = tuple(_native.isas())
UNIT = 2.0**-24
# Below every bound: products may lose what is smaller than a float can hold, and a block whose largest
# activation is under 2^-120 has a step too small to be inverted.
TINY = 2.0**-112

# Halves that are easily got wrong: zero, smallest and largest subnormal, smallest and largest normal,
# infinity, not a number; two ordinary ones; and all of these with a minus.
ODD_HALVES = np.array([0x0000, 0x0001, 0x03FF, 0x0400, 0x7BFF, 0x7C00, 0x7E00, 0x3C00, 0x2E66], "<u2")
ODD_HALVES = np.concatenate([ODD_HALVES, ODD_HALVES | np.uint16(0x8000)])
# Byte offsets of the halves of a block.
HALVES = {"Q8_0": (0,), "Q5_0": (0,), "Q4_1": (0, 2), "Q4_K": (0, 2), "Q6_K": (208,)}
HALVES |= {"Q4_0": (0,), "IQ4_NL": (0,), "IQ4_XS": (0,), "Q3_K": (108,)}
HALVES |= {"Q5_1": (0, 2), "Q5_K": (0, 2), "Q2_K": (80, 82)}
# Bytes of the codes of a block, in the formats that have a minimum.
CODES = {"Q4_1": slice(4, 20), "Q5_1": slice(4, 24), "Q4_K": slice(16, 144), "Q5_K": slice(16, 176)}
CODES |= {"Q2_K": slice(16, 80)}


def pack(kind: str, data: Bytes, num_rows: int, num_columns: int) -> _native.Matrix:
    return _native.Matrix.pack(POOL, kind, num_rows, num_columns, np.ascontiguousarray(data.reshape(-1)))


def random_blocks(kind: str, num_blocks: int, seed: int = 0) -> Bytes:
    """uint8[num_blocks, block_bytes]: any bytes at all."""
    shape = (num_blocks, GGMLType[kind].block_bytes)
    return np.random.default_rng([seed, GGMLType[kind]]).integers(0, 256, shape, np.uint8)


def assert_same_bits(ours: Float32, theirs: Float32) -> None:
    """Equal to the bit, signed zeros included; one not-a-number is as good as another."""
    numbers = ~np.isnan(theirs)
    np.testing.assert_array_equal(np.isnan(ours), ~numbers)
    np.testing.assert_array_equal(ours.view(np.uint32)[numbers], theirs.view(np.uint32)[numbers])


def assert_dequantises_like_gguf(kind: str, blocks: Bytes, num_rows: int) -> None:
    data = blocks.reshape(num_rows, -1)
    with np.errstate(all="ignore"):
        theirs = gguf.quants.dequantize(data, gguf.GGMLQuantizationType[kind])
    assert_same_bits(pack(kind, data, *theirs.shape).dequantise(), theirs)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("num_rows", [1, 7, 8, 29])
def test_dequantise_gives_the_bits_of_the_gguf_package(kind: str, num_rows: int) -> None:
    blocks_per_row = 3 if GGMLType[kind].block_size > 1 else 96
    blocks = random_blocks(kind, num_rows * blocks_per_row)
    for at in HALVES.get(kind, ()):  # moderate scales of both signs: the next test has the others
        halves = np.random.default_rng(at).standard_normal(len(blocks)).astype("<f2")
        blocks[:, at : at + 2] = halves[:, None].view(np.uint8)
    assert_dequantises_like_gguf(kind, blocks, num_rows)


@pytest.mark.parametrize("kind", QUANTISED)
def test_odd_scales_give_the_bits_of_the_gguf_package(kind: str) -> None:
    pairs = np.stack(np.meshgrid(ODD_HALVES, ODD_HALVES), -1).reshape(-1, 2)  # every (scale, minimum)
    blocks = random_blocks(kind, len(pairs))
    for column, at in enumerate(HALVES[kind]):
        blocks[:, at : at + 2] = np.ascontiguousarray(pairs[:, column : column + 1]).view(np.uint8)
    assert_dequantises_like_gguf(kind, blocks, len(ODD_HALVES))


@pytest.mark.parametrize("kind", ["F16", "BF16"])
def test_every_half_gives_the_bits_of_the_gguf_package(kind: str) -> None:
    halves = np.arange(1 << 16, dtype="<u2")
    assert_dequantises_like_gguf(kind, halves.view(np.uint8), 256)


@pytest.mark.parametrize("kind", FORMATS)
def test_order_permutes_the_rows(kind: str) -> None:
    data = encoded(kind, 21, 256, seed=5)
    order = np.random.default_rng(5).permutation(21).astype(np.int32)
    matrix = _native.Matrix.pack(POOL, kind, 21, 256, data, order)
    assert_same_bits(matrix.dequantise(), dequantize(data, GGMLType[kind]).reshape(21, 256)[order])


# ---- products ----


def encoded(kind: str, num_rows: int, num_columns: int, seed: int = 0, scale: float = 1.0) -> Bytes:
    """A random normal matrix in this format."""
    values = np.random.default_rng([seed, 1]).standard_normal((num_rows, num_columns)) * scale
    return quantize(values.astype(np.float32), GGMLType[kind])


def weights_of(kind: str, data: Bytes, num_rows: int) -> Float64:
    weights: Float64 = dequantize(data, GGMLType[kind]).reshape(num_rows, -1).astype(np.float64)
    return weights


def added_part(kind: str, data: Bytes, num_rows: int) -> Float64:
    """What every weight would be if its code were 0, in the formats that have a minimum; else 0."""
    if kind not in CODES:
        return np.zeros_like(weights_of(kind, data, num_rows))
    blocks = data.reshape(-1, GGMLType[kind].block_bytes).copy()
    blocks[:, CODES[kind]] = 0
    return weights_of(kind, blocks.reshape(-1), num_rows)


def gamma(num_roundings: int) -> float:
    return num_roundings * UNIT / (1 - num_roundings * UNIT)


def float_bound(weights: Float64, x: Float32) -> Float64:
    """[m, n]; weights [n, k], x [m, k]."""
    blocks = -(-x.shape[1] // 32)
    return gamma(32 + blocks) * (np.abs(x.astype(np.float64)) @ np.abs(weights).T) + TINY


def int8_bound(weights: Float64, added: Float64, x: Float32) -> Float64:
    """[m, n]; weights and added [n, k], x [m, k]."""
    size = np.abs(x.astype(np.float64))
    num_rows, num_columns = size.shape
    steps = size.reshape(num_rows, -1, 32).max(axis=2).repeat(32, axis=1) / 127
    rounding = 0.5001 * steps @ np.abs(weights).T
    # After rounding an activation is at most half a step larger than it was.
    parts = (size + steps / 2) @ (np.abs(weights - added) + np.abs(added)).T
    return rounding + gamma(2 * num_columns // 32 + 12) * parts + TINY


# Activations that make a product hard: (weights [n, k], seed) -> float32[5, k].


def normal(weights: Float64, seed: int) -> Float32:
    return np.random.default_rng([seed, 2]).standard_normal((5, weights.shape[1])).astype(np.float32)


def cancelling(weights: Float64, seed: int) -> Float32:
    """Row 0 of the matrix meets pairs of terms that almost cancel, of sizes from 1e-3 to 1e3."""
    x = normal(weights, seed).astype(np.float64)
    x *= 10.0 ** np.random.default_rng([seed, 3]).uniform(-3, 3, x.shape)
    even, odd = weights[0, ::2], weights[0, 1::2]
    usable = np.abs(odd) > 1e-3
    x[:, 1::2][:, usable] = (-x[:, ::2] * even)[:, usable] / odd[usable]
    return x.astype(np.float32)


def outliers(weights: Float64, seed: int) -> Float32:
    """One large entry per block: all the others are a fraction of a step."""
    x = normal(weights, seed)
    x[:, 7::32] = 300.0
    return x


def half_steps(weights: Float64, seed: int) -> Float32:
    """Even codes and a half, all rounded to even: row 0 meets the largest error there can be."""
    codes = np.random.default_rng([seed, 4]).integers(0, 63, (5, weights.shape[1])) * 2 + 0.5
    codes *= np.where(weights[0] < 0, -1.0, 1.0)
    codes[:, ::32] = 127.0
    return codes.astype(np.float32)


def wild(weights: Float64, seed: int) -> Float32:
    """Sizes from 2^-140 (subnormal) to 2^40, whole blocks of zero, zeros of both signs."""
    random = np.random.default_rng([seed, 5])
    x = normal(weights, seed) * np.exp2(random.integers(-140, 40, (5, weights.shape[1])))
    x[1, :32] = 0.0
    x[2] = np.where(random.random(weights.shape[1]) < 0.5, 0.0, -0.0)
    x[3] *= 2.0**-100
    return x.astype(np.float32)


MAKERS = (normal, cancelling, outliers, half_steps, wild)
SHAPES = {"whole": (32, 512), "ragged": (13, 256), "deep": (3, 4096)}


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("kind", FORMATS)
def test_f32_products_stay_within_the_bound(kind: str, shape: tuple[int, int], isa: str) -> None:
    data = encoded(kind, *shape)
    matrix, weights = pack(kind, data, *shape), weights_of(kind, data, shape[0])
    for maker in MAKERS:
        x = maker(weights, 0)
        error = np.abs(matrix.matmul(POOL, x, isa, int8=False) - x.astype(np.float64) @ weights.T)
        assert np.all(error <= float_bound(weights, x)), maker.__name__


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("kind", ["F32", "F16", "BF16"])
@pytest.mark.parametrize("num_columns", [1, 7, 33, 100])
def test_f32_products_of_any_width(kind: str, num_columns: int, isa: str) -> None:
    data = encoded(kind, 10, num_columns)
    matrix, weights = pack(kind, data, 10, num_columns), weights_of(kind, data, 10)
    x = normal(weights, 0)
    error = np.abs(matrix.matmul(POOL, x, isa, int8=False) - x.astype(np.float64) @ weights.T)
    assert np.all(error <= float_bound(weights, x))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("kind", QUANTISED)
def test_int8_products_stay_within_the_bound(kind: str, shape: tuple[int, int], isa: str) -> None:
    data = encoded(kind, *shape)
    matrix, weights = pack(kind, data, *shape), weights_of(kind, data, shape[0])
    added = added_part(kind, data, shape[0])
    for maker in MAKERS:
        x = maker(weights, 0)
        error = np.abs(matrix.matmul(POOL, x, isa, int8=True) - x.astype(np.float64) @ weights.T)
        assert np.all(error <= int8_bound(weights, added, x)), maker.__name__


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("kind", QUANTISED)
def test_int8_products_of_extreme_codes(kind: str, isa: str) -> None:
    """Any codes at all, and activations of largest size: integer sums that overflowed would show here."""
    blocks = random_blocks(kind, 16 * (512 // GGMLType[kind].block_size))
    blocks[::2] = np.where(random_blocks(kind, len(blocks))[::2] < 128, 0x80, 0x7F)  # all codes extreme
    blocks[1::4] = 0xFF
    for at in HALVES[kind]:
        blocks[:, at : at + 2] = np.array([0x2C00], "<u2").view(np.uint8)
    data = blocks.reshape(-1)
    matrix, weights = pack(kind, data, 16, 512), weights_of(kind, data, 16)
    added = added_part(kind, data, 16)
    signs = np.where(weights[:5] < 0, -1, 1)
    for x in (np.full((5, 512), 3.0), np.full((5, 512), -3.0), 3.0 * signs, -3.0 * signs):
        x = x.astype(np.float32)
        error = np.abs(matrix.matmul(POOL, x, isa, int8=True) - x.astype(np.float64) @ weights.T)
        # All activations are 127 steps exactly: nothing is lost in rounding them, so a tight bound holds.
        parts = np.abs(x.astype(np.float64)) @ (np.abs(weights - added) + np.abs(added)).T
        assert np.all(error <= gamma(2 * 512 // 32 + 12) * parts)


@pytest.mark.parametrize("kind", FORMATS)
def test_the_bounds_notice_one_wrong_weight(kind: str) -> None:
    """The bounds are tight enough to mean something: one code off by one breaks the f32 bound."""
    data = encoded(kind, 8, 256)
    weights, wrong = weights_of(kind, data, 8), data.copy()
    wrong[GGMLType[kind].block_bytes - (5 if kind in ("Q6_K", "Q3_K", "Q2_K") else 1)] ^= (
        1  # a code or a scale
    )
    x = normal(weights, 0)
    x[:] = np.sign(x)
    error = np.abs(pack(kind, wrong, 8, 256).matmul(POOL, x, int8=False) - x.astype(np.float64) @ weights.T)
    assert np.any(error > float_bound(weights, x))

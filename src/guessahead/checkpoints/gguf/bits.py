"""Bits that lie across bytes in the blocks of K-quants."""

from __future__ import annotations

from typing import Final

import numpy as np

from guessahead.checkpoints.gguf.types import Bytes

_BITS: Final = np.arange(8, dtype=np.uint8)[:, None]


def split_bits(packed: Bytes) -> Bytes:
    """[blocks, 32] bytes -> [blocks, 8, 32] bits."""
    return (packed[:, None, :] >> _BITS) & np.uint8(1)


def join_bits(bits: Bytes) -> Bytes:
    """The inverse of `split_bits`."""
    joined: Bytes = np.packbits(bits, axis=1, bitorder="little")[:, 0]
    return joined


def unpack_6_bits(packed: Bytes) -> tuple[Bytes, Bytes]:
    """Twelve bytes -> eight 6-bit scales and eight 6-bit minima.

    Bytes 0-3 hold scales 0-3, bytes 4-7 minima 0-3; their top two bits are those of scales and minima 4-7,
    whose low halves share bytes 8-11.
    """
    first, second, third = packed[:, 0:4], packed[:, 4:8], packed[:, 8:12]
    low, top, shift = np.uint8(63), np.uint8(48), np.uint8(2)
    scales = np.concatenate([first & low, (third & np.uint8(15)) | ((first >> shift) & top)], axis=1)
    minima = np.concatenate([second & low, (third >> np.uint8(4)) | ((second >> shift) & top)], axis=1)
    return scales, minima


def pack_6_bits(scales: Bytes, minima: Bytes) -> Bytes:
    """The inverse of `unpack_6_bits`."""
    shift = np.uint8(4)
    top_scales, top_minima = scales[:, 4:] >> shift, minima[:, 4:] >> shift
    return np.concatenate(
        [
            scales[:, :4] | (top_scales << np.uint8(6)),
            minima[:, :4] | (top_minima << np.uint8(6)),
            (scales[:, 4:] & np.uint8(15)) | (minima[:, 4:] << shift),
        ],
        axis=1,
    )

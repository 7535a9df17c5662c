"""Damage done to files: bytes, and values of their JSON."""

from __future__ import annotations

import copy
import json
import random
import struct
from typing import Any

ODD_NUMBERS = (0, 1, 2, 7, 31, 255, 256, 65535, 1 << 20, (1 << 31) - 1, 1 << 31, (1 << 63) - 1, (1 << 64) - 1)
ODD_VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1, 3, 1 << 31, 1 << 70, 0.0, -1.5, 1e300, float("nan"), "", "x", "BF16", "\ud800",
    [], [0], [-1, 1 << 62], {}, {"type": "BPE"}, [[[[]]]], "BPE", "ByteLevel", 63, 64, 65,
)  # fmt: skip


def mutate_bytes(data: bytes, rng: random.Random, header: int) -> bytes:
    """A few changes within the first `header` bytes, or a cut."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = rng.randrange(min(header, len(changed)) or 1)
        kind = rng.randrange(7)
        if kind == 0:
            changed[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            changed[at] = rng.randrange(256)
        elif kind == 2:
            changed[at : at + 8] = struct.pack("<Q", rng.choice(ODD_NUMBERS))
        elif kind == 3:
            changed[at : at + 4] = struct.pack("<I", rng.choice(ODD_NUMBERS) & 0xFFFFFFFF)
        elif kind == 4:
            del changed[at : at + rng.randrange(1, 9)]
        elif kind == 5:
            changed[at:at] = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 9)))
        else:
            del changed[rng.randrange(len(changed)) :]
        if not changed:
            break
    return bytes(changed)


def mutate_json(text: str, rng: random.Random) -> bytes:
    """One to three values changed, removed, moved or doubled; sometimes bytes instead."""
    if rng.random() < 0.15:
        return mutate_bytes(text.encode(), rng, len(text))
    root = json.loads(text)
    for _ in range(rng.choice((1, 1, 2, 3))):
        holders = [holder for holder in _holders(root) if holder]
        if not holders:
            break
        holder = rng.choice(holders)
        key = rng.choice(list(holder)) if isinstance(holder, dict) else rng.randrange(len(holder))
        kind = rng.randrange(4)
        if kind == 0:
            del holder[key]
        elif kind == 1 and isinstance(holder[key], int):
            holder[key] += rng.choice((-1, 1, 8, 64, 1 << 32))
        else:
            holder[key] = copy.deepcopy(rng.choice(ODD_VALUES))
    return json.dumps(root).encode()


def _holders(value: Any) -> list[Any]:
    """All lists and objects, the outermost first; long lists only in part."""
    if isinstance(value, dict):
        return [value, *(inner for each in list(value.values())[:50] for inner in _holders(each))]
    if isinstance(value, list):
        return [value, *(inner for each in value[:5] for inner in _holders(each))]
    return []

"""Reads and writes the test data: the tokenizers of two real models, and what llama.cpp makes of odd strings.

Both models (SmolLM2 and Qwen2.5-Coder), and so their vocabularies, are under Apache-2.0.

A merge of these tokenizers yields the tokens in order, so a merge is stored as the length of its left part.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"
KINDS = ("smollm", "qwen2")  # SmolLM2-135M-Instruct; Qwen2.5-Coder-0.5B-Instruct
_KEY = "tokenizer.ggml."


def load(name: str) -> Any:
    """The content of one data file."""
    return json.loads(lzma.decompress((DATA / f"{name}.json.xz").read_bytes()))


def save(name: str, content: Any) -> None:
    """Write one data file."""
    DATA.mkdir(exist_ok=True)
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    (DATA / f"{name}.json.xz").write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))


def pack(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The tokenizer part of a GGUF file's metadata, made small. ValueError: merges out of order."""
    packed = {key: value for key, value in metadata.items() if key.startswith("tokenizer.")}
    tokens = packed[_KEY + "tokens"]
    merges = [merge.split(" ") for merge in packed.pop(_KEY + "merges")]
    first = tokens.index("".join(merges[0]))
    if [left + right for left, right in merges] != tokens[first : first + len(merges)]:
        raise ValueError("the merges do not yield the tokens in order")
    types = packed.pop(_KEY + "token_type")
    return {
        "rest": packed,
        "first_merged": first,
        "left_lengths": [len(left) for left, _ in merges],
        "types": {str(i): kind for i, kind in enumerate(types) if kind != 1},
    }


@cache
def _metadata(kind: str) -> dict[str, Any]:
    packed = load(f"{kind}_tokenizer")
    tokens = packed["rest"][_KEY + "tokens"]
    first = packed["first_merged"]
    merges = []
    for token, length in zip(tokens[first:], packed["left_lengths"], strict=False):
        merges.append(f"{token[:length]} {token[length:]}")
    types = [packed["types"].get(str(i), 1) for i in range(len(tokens))]
    return {**packed["rest"], _KEY + "merges": merges, _KEY + "token_type": types}


def metadata(kind: str) -> dict[str, Any]:
    """A copy (its lists shared) of the tokenizer metadata of one of KINDS, as its GGUF file has it."""
    return dict(_metadata(kind))

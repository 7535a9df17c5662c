"""Metadata of the vocabularies that make_synthetic_oracle.py trains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.support.tiny import byte_alphabet

BPE = "bpe_names"
# What else a file of each kind says: "words" as Llama 2, "spans" without a space in front, as Gemma.
PIECES: dict[str, dict[str, Any]] = {"words": {}, "spans": {"add_space_prefix": False}}


def _with_prefix(values: dict[str, Any]) -> dict[str, Any]:
    return {f"tokenizer.ggml.{key}": value for key, value in values.items()}


def pieces_metadata(kind: str, pieces: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """A SentencePiece vocabulary, as a GGUF file has it; pieces: (text, score, type) by id."""
    tokens, scores, types = (list(column) for column in zip(*pieces, strict=True))
    values = {
        "model": "llama",
        "tokens": tokens,
        "scores": scores,
        "token_type": types,
        "bos_token_id": tokens.index("<s>"),
        "eos_token_id": tokens.index("</s>"),
        "unknown_token_id": tokens.index("<unk>"),
    }
    return _with_prefix(values | PIECES[kind])


def bpe_metadata(pre: str, merges: Sequence[Sequence[str]]) -> dict[str, Any]:
    """A byte-level BPE vocabulary whose pre-tokenizer has this name."""
    tokens = [*byte_alphabet(), *dict.fromkeys(left + right for left, right in merges), "<|end|>"]
    values = {
        "model": "gpt2",
        "pre": pre,
        "tokens": tokens,
        "token_type": [1] * (len(tokens) - 1) + [3],
        "merges": [f"{left} {right}" for left, right in merges],
        "bos_token_id": len(tokens) - 1,
        "eos_token_id": len(tokens) - 1,
        "add_bos_token": False,
    }
    return _with_prefix(values)

"""Texts with white space around special tokens, and vocabularies whose answers to them llama.cpp gave."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from guessahead.text.pretokenizers import PRE_TOKENIZERS
from tests.text import store
from tests.text.synthetic_kinds import PIECES, bpe_metadata, pieces_metadata

DATA = "white_space"
PHI3 = ("Phi-3 mini 4k instruct", "phi3", "My PHI3")  # names by which llama.cpp knows the model
_CONTROL, _OWN = 3, 4
_ADDED = (("<|endoftext|>", _CONTROL), ("<|user|>", _CONTROL), ("<|end|>", _CONTROL), ("<|tool|>", _OWN))
_BLANKS = ("", " ", "  ", "\n", " \n", "\n\n ", "\t", "\r\n", "\v\f", "\u00a0", "\u2003", "\u3000\n")


def models() -> Iterator[tuple[str, dict[str, Any]]]:
    """Names and metadata: SentencePiece under several names of models, BPE with every pre-tokenizer."""
    for kind in PIECES:
        pieces = [piece for piece in store.load(f"pieces_{kind}")["pieces"] if piece[0] not in dict(_ADDED)]
        pieces += [(token, 0.0, kind_of) for token, kind_of in _ADDED]
        for name in (*PHI3, "Phi 3", "Llama"):
            yield f"{kind}/{name}", {**pieces_metadata(kind, pieces), "general.name": name}
    merges = store.load("bpe_names")["merges"]
    for pre in PRE_TOKENIZERS:
        metadata = bpe_metadata(pre, merges)
        known = metadata["tokenizer.ggml.tokens"]
        for token, kind_of in (("<unk>", 2), ("<s>", _CONTROL), ("</s>", _CONTROL), *_ADDED):
            if token not in known:
                known.append(token)
                metadata["tokenizer.ggml.token_type"].append(kind_of)
        yield f"bpe/{pre}", {**metadata, "general.name": "Phi-3 by BPE" if pre == "gpt-2" else "x"}


def texts() -> list[str]:
    """Every special token with white space before, behind and between."""
    found = []
    for i, (token, _) in enumerate((("<unk>", 0), ("<s>", 0), ("</s>", 0), *_ADDED)):
        for j, before in enumerate(_BLANKS):
            after = _BLANKS[(i + 5 * j + 1) % len(_BLANKS)]
            found += [
                f"in{before}{token}{after}we",
                f"{before}{token}{after}{token}{before}",
                f"{token}{before}1 a",
            ]
    return found

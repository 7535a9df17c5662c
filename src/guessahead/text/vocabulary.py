"""The tokens of a GGUF file, their kinds, and which of them end a text: `tokenizer.ggml.*`, checked."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from guessahead.errors import TokenizerError
from guessahead.text.sentencepiece import SPACE

KEY: Final = "tokenizer.ggml."
_BLANKS: Final = " \t\n\v\f\r"

# Token types as GGUF numbers them.
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6

# Conversion scripts do not always mark these, so they are recognised by name, as in llama.cpp.
# fmt: off
ENDS: Final = frozenset(
    (
        "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>",
        "<end_of_turn>", "<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]",
        "<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>",
        "<｜end▁of▁sentence｜>", "[e~[",
    )
)
# fmt: on
# Fill-in-the-middle tokens that end a text.
_FILL_ENDS: Final[Mapping[str, tuple[str, ...]]] = {
    "fim_pad_token_id": ("<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"),
    "fim_rep_token_id": ("<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"),
    "fim_sep_token_id": ("<|file_sep|>",),
}
_ID_KEYS: Final = ("bos_token_id", "eos_token_id", "eot_token_id", "eom_token_id", *_FILL_ENDS)


def _byte_stand_ins() -> dict[str, int]:
    """GPT-2's printable stand-in of each byte -> the byte: itself if printable, else U+0100 and up."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    table = {chr(byte): byte for byte in printable}
    return table | {chr(0x100 + i): byte for i, byte in enumerate(others)}


_BYTE_OF: Final = _byte_stand_ins()


@dataclass(frozen=True)
class Vocabulary:
    """tokens[id], types[id] (GGUF token types), and the ids with a role.

    merges: of byte-level BPE, pairs, best first; empty for SentencePiece.
    scores: of SentencePiece, one per token; else empty.
    in_pieces: tokens are text with U+2581 for the space; else they are in stand-ins of bytes.
    adds_bos: the file's setting of whether BOS comes first; None if it has none.
    begins, ends: ids of every prompt's beginning and end; begins is None if adds_bos decides.
    strips: special tokens after which white space is removed.
    num_rows: of the model's matrices; ids from len(tokens) on, which fill them up, are padding.
    """

    tokens: list[str]
    types: list[int]
    merges: list[tuple[str, str]]
    bos_id: int | None
    eos_ids: tuple[int, ...]
    adds_bos: bool | None
    scores: list[float] = field(default_factory=list)
    in_pieces: bool = False
    begins: tuple[int, ...] | None = None
    ends: tuple[int, ...] = ()
    strips: frozenset[int] = frozenset()
    num_rows: int = 0

    @classmethod
    def from_gguf(cls, metadata: Mapping[str, Any], num_rows: int = 0) -> Vocabulary:
        """Errors: TokenizerError, one line, for a missing or damaged entry."""
        tokens = _tokens(metadata)
        types = _types(metadata, len(tokens))
        roles = {key: _token_id(metadata, key) for key in _ID_KEYS}
        id_of = {token: token_id for token_id, token in enumerate(tokens)}
        by_name = {id_of[name] for name in ENDS if name in id_of}
        for key, names in _FILL_ENDS.items():
            if roles[key] is None:
                roles[key] = min((id_of[name] for name in names if name in id_of), default=None)
        for token_id in by_name:
            types[token_id] = CONTROL
        _drop_what_is_outside(roles, max(len(tokens), num_rows), metadata)
        ends = by_name.union(i for key, i in roles.items() if key != "bos_token_id" and i is not None)
        adds_bos = metadata.get(KEY + "add_bos_token")
        if adds_bos and roles["bos_token_id"] is None:
            raise TokenizerError(f"the model file asks for a BOS token but has no {KEY}bos_token_id")
        if metadata.get(KEY + "add_eos_token") and roles["eos_token_id"] is None:
            raise TokenizerError(f"the model file asks for an EOS token but has no {KEY}eos_token_id")
        adds_eos = bool(metadata.get(KEY + "add_eos_token"))
        in_pieces = metadata.get(KEY + "model") == "llama"
        return cls(
            tokens=tokens,
            types=types,
            merges=[] if in_pieces else _merges(metadata),
            scores=_scores(metadata, len(tokens)) if in_pieces else [],
            in_pieces=in_pieces,
            bos_id=roles["bos_token_id"],
            eos_ids=tuple(sorted(ends)),
            adds_bos=None if adds_bos is None else bool(adds_bos),
            ends=tuple(i for i in (roles["eos_token_id"],) if adds_eos and i is not None),
            strips=_strips(metadata, tokens, types),
            num_rows=num_rows,
        )

    @property
    def size(self) -> int:
        """The number of ids, padding included."""
        return max(len(self.tokens), self.num_rows)

    def name(self, token_id: int) -> str:
        """The name of a token."""
        return self.tokens[token_id] if token_id < len(self.tokens) else f"[PAD{token_id}]"

    @cached_property
    def _special(self) -> list[tuple[str, int]]:
        """Tokens that are cut out of the text before it is split, longest (in bytes) first."""
        kinds = (UNKNOWN, CONTROL, USER_DEFINED)
        found = [(self.tokens[i], i) for i, kind in enumerate(self.types) if kind in kinds]
        return sorted(found, key=lambda item: (-len(item[0].encode()), item[1]))

    def cut_special(self, text: str, *, control: bool) -> list[str | int]:
        """`text` as plain parts and ids of special tokens (only user-defined ones without `control`)."""
        parts: list[str | int] = [text]
        for name, token_id in self._special:
            if (control or self.types[token_id] == USER_DEFINED) and name in text:
                parts = list(_cut(parts, name, token_id, _BLANKS if token_id in self.strips else ""))
        return parts

    def cut_control(self, text: str) -> list[str | int]:
        """`text` as plain parts and ids of the tokens that show nothing; no white space is removed."""
        parts: list[str | int] = [text]
        for name, token_id in self._special:
            if self.types[token_id] != USER_DEFINED and name in text:
                parts = list(_cut(parts, name, token_id, ""))
        return parts

    def token_bytes(self, token_id: int, *, special: bool) -> bytes:
        """The bytes of a token in a text; see `Tokenizer.token_bytes`."""
        if token_id >= len(self.tokens):
            return b""
        token, kind = self.tokens[token_id], self.types[token_id]
        if kind in (CONTROL, UNKNOWN):
            return token.encode() if special else b""
        if kind == USER_DEFINED:
            return token.encode()
        if kind == NORMAL and self.in_pieces:
            return token.replace(SPACE, " ").encode()
        if kind == NORMAL:
            try:
                return bytes([_BYTE_OF[char] for char in token])
            except KeyError:  # not in stand-ins: an added token that the converter did not mark
                return token.encode()
        if kind == BYTE and (match := re.fullmatch("<0x([0-9A-F]{2})>", token)):
            return bytes.fromhex(match[1])
        return b""

    def is_padding(self, token_id: int) -> bool:
        """Whether an entry only fills the table up to the model's matrix size."""
        name = self.tokens[token_id]
        return self.types[token_id] == UNUSED or re.fullmatch(r"\[PAD\d*\]", name) is not None


def _cut(parts: list[str | int], name: str, token_id: int, left_out: str) -> Iterator[str | int]:
    for part in parts:
        if isinstance(part, int):
            yield part
            continue
        first, *others = part.split(name)
        if first:
            yield first
        for other in others:
            yield token_id
            if kept := other.lstrip(left_out) if left_out else other:
                yield kept


def _strips(metadata: Mapping[str, Any], tokens: list[str], types: list[int]) -> frozenset[int]:
    """Such tokens of Phi-3. GGUF files lack this setting; as in llama.cpp, the model's name decides."""
    name = metadata.get("general.name")
    if not isinstance(name, str) or not any(each in name.lower() for each in ("phi-3", "phi3")):
        return frozenset()
    special = (i for i, kind in enumerate(types) if kind in (UNKNOWN, CONTROL, USER_DEFINED))
    return frozenset(i for i in special if tokens[i] not in ("<unk>", "<s>", "<|endoftext|>"))


def _list(metadata: Mapping[str, Any], name: str) -> list[Any]:
    value = metadata.get(KEY + name)
    if value is None:
        raise TokenizerError(f"the model file lacks {KEY}{name}")
    found = value.tolist() if hasattr(value, "tolist") else value
    if not isinstance(found, list | tuple):
        raise TokenizerError(f"{KEY}{name} is not a list")
    return list(found)


def _strings(metadata: Mapping[str, Any], name: str) -> list[str]:
    found = _list(metadata, name)
    for index, value in enumerate(found):
        if not isinstance(value, str):
            raise TokenizerError(f"{KEY}{name}[{index}] is not a string")
    return found


def _tokens(metadata: Mapping[str, Any]) -> list[str]:
    found = _strings(metadata, "tokens")
    if not found:
        raise TokenizerError(f"{KEY}tokens is empty")
    tokens = [token or f"[EMPTY_{i}]" for i, token in enumerate(found)]  # a hole, named as llama.cpp does
    if len(set(tokens)) != len(tokens):
        seen: dict[str, int] = {}
        for token_id, token in enumerate(tokens):
            first = seen.setdefault(token, token_id)
            if first != token_id:
                raise TokenizerError(f"{KEY}tokens holds {token!r} twice: ids {first} and {token_id}")
    return tokens


def _types(metadata: Mapping[str, Any], num_tokens: int) -> list[int]:
    if metadata.get(KEY + "token_type") is None:
        return [NORMAL] * num_tokens
    found = _list(metadata, "token_type")
    if len(found) != num_tokens:
        raise TokenizerError(f"{KEY}token_type has {len(found)} entries for {num_tokens} tokens")
    for token_id, value in enumerate(found):
        if type(value) is not int:
            raise TokenizerError(f"{KEY}token_type[{token_id}] is not an integer")
    return found


def _merges(metadata: Mapping[str, Any]) -> list[tuple[str, str]]:
    merges: dict[tuple[str, str], None] = {}
    for index, line in enumerate(_strings(metadata, "merges")):
        left, _, right = line.partition(" ")
        if not left or not right or " " in right:
            raise TokenizerError(f"{KEY}merges[{index}] is not two tokens and a space: {line[:60]!r}")
        merges.setdefault((left, right))  # the first of two equal merges counts
    return list(merges)


def _scores(metadata: Mapping[str, Any], num_tokens: int) -> list[float]:
    found = _list(metadata, "scores")
    if len(found) != num_tokens:
        raise TokenizerError(f"{KEY}scores has {len(found)} entries for {num_tokens} tokens")
    for token_id, value in enumerate(found):
        if type(value) is not float or math.isnan(value):
            raise TokenizerError(f"{KEY}scores[{token_id}] is not a number")
    return found


def _drop_what_is_outside(roles: dict[str, int | None], num_tokens: int, metadata: Mapping[str, Any]) -> None:
    """Drop ids outside the vocabulary; TokenizerError if such a token is required."""
    outside = [key for key, i in roles.items() if i is not None and not 0 <= i < num_tokens]
    inside = any(i is not None for key, i in roles.items() if key != "bos_token_id" and key not in outside)
    for key in outside:
        needed = key == "bos_token_id" and metadata.get(KEY + "add_bos_token") is not False
        needed |= key == "eos_token_id" and bool(not inside or metadata.get(KEY + "add_eos_token"))
        if needed:
            raise TokenizerError(f"{KEY}{key} is {roles[key]}, but the vocabulary has {num_tokens} tokens")
        roles[key] = None


def _token_id(metadata: Mapping[str, Any], name: str) -> int | None:
    value = metadata.get(KEY + name)
    if value is None:
        return None
    try:
        return operator.index(value)
    except TypeError:
        raise TokenizerError(f"{KEY}{name} is not an integer") from None

"""Doubles of what turns text into tokens and back: a tokenizer of bytes, a chat template."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from guessahead.errors import TokenizerError


class FakeTokenizer:
    """One token per entry of `pieces` (bytes); a token in `eos_ids` has no text."""

    bos_id: int | None = None
    adds_bos = False

    def __init__(self, pieces: Sequence[bytes], eos_ids: Sequence[int] = ()) -> None:
        self.pieces = list(pieces)
        self.eos_ids = tuple(eos_ids)
        self.vocab_size = len(self.pieces)

    def encode_chat(self, text: str) -> list[int]:
        return self.encode(text, special=True)

    def encode(self, text: str, *, special: bool = False, bos: bool = True) -> list[int]:
        """Byte by byte, those without a token left out; special: "<eos>" stands for the first EOS token."""
        if special and self.eos_ids and "<eos>" in text:
            head, _, rest = text.partition("<eos>")
            return [*self.encode(head), self.eos_ids[0], *self.encode(rest, special=True)]
        known = [bytes([byte]) for byte in text.encode()]
        return [self.pieces.index(byte) for byte in known if byte in self.pieces]

    def token_bytes(self, token_id: int, *, special: bool = False) -> bytes:
        return b"" if token_id in self.eos_ids else self.pieces[token_id]

    def cut_control(self, text: str) -> list[str | int]:
        return [text]

    def decode(self, token_ids: Sequence[int]) -> str:
        return b"".join(self.token_bytes(token) for token in token_ids).decode(errors="replace")

    def check_same(self, other: FakeTokenizer) -> None:
        for token, (mine, theirs) in enumerate(zip(self.pieces, other.pieces, strict=False)):
            if mine != theirs:
                raise TokenizerError(
                    f"the tokenizers differ: id {token} is {mine!r} here and {theirs!r} there"
                )


def letters(vocab_size: int, eos_ids: Sequence[int] = ()) -> FakeTokenizer:
    """Token i is the letter number i from "A" on."""
    return FakeTokenizer([chr(65 + i).encode() for i in range(vocab_size)], eos_ids)


class FakeTemplate:
    """<role>content... and "<assistant>" at the end, in the alphabet of a byte tokenizer."""

    def render(
        self, messages: Sequence[Any], system: str | None = None, *, continue_last: bool = False
    ) -> str:
        head = f"<system>{system}" if system is not None else ""
        return (
            head
            + "".join(f"<{m['role']}>{m['content']}" for m in messages)
            + ("" if continue_last else "<assistant>")
        )

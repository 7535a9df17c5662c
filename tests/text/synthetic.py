"""A small llama-bpe vocabulary whose every id can be derived by hand."""

from __future__ import annotations

from typing import Any

_PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_OTHERS = [byte for byte in range(256) if byte not in _PRINTABLE]
STAND_IN = {byte: chr(byte) for byte in _PRINTABLE} | {byte: chr(0x100 + i) for i, byte in enumerate(_OTHERS)}

MERGES = ["a b", "b c", "ab c", "Ġ a", "1 2", "12 3", "l l", "' ll"]
WHOLE = ["cab", "bcd", "123", "Ġabc", "Ċ Ċ".replace(" ", "")]  # tokens that no merge yields, but for "123"
CONTROL = ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"]
USER_DEFINED = ["<tool>"]


def stand_ins(text: str) -> str:
    """`text` as the vocabulary spells it."""
    return "".join(STAND_IN[byte] for byte in text.encode())


def tokens() -> list[str]:
    """Ids 0..255 are the bytes, then merged tokens, then WHOLE, CONTROL, USER_DEFINED."""
    merged = [merge.replace(" ", "") for merge in MERGES]
    return list(
        dict.fromkeys([STAND_IN[byte] for byte in range(256)] + merged + WHOLE + CONTROL + USER_DEFINED)
    )


def llama_bpe(**changes: Any) -> dict[str, Any]:
    """Metadata as a GGUF file has it; `changes` by the last part of a key, None to leave it out."""
    names = tokens()
    types = [3 if name in CONTROL else 4 if name in USER_DEFINED else 1 for name in names]
    values: dict[str, Any] = {
        "model": "gpt2",
        "pre": "llama-bpe",
        "tokens": names,
        "token_type": types,
        "merges": list(MERGES),
        "bos_token_id": names.index("<|begin_of_text|>"),
        "eos_token_id": names.index("<|end_of_text|>"),
    }
    values.update(changes)
    return {f"tokenizer.ggml.{key}": value for key, value in values.items() if value is not None}

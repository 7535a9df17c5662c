"""Cases from public bug reports of this field: where the text is cut, and how it is streamed."""

from __future__ import annotations

import pytest

from tests.support.fake_drafters import ConstantDrafter, OracleDrafter
from tests.support.fake_text import FakeTokenizer
from tests.support.fakes import ScriptEngine, decode, decode_stream, request

STOP_TEXT = [b"a", b"lo", b"n", b"g ", b"st", b"or", b"y. E", b"N", b"Dof", b" it"]


@pytest.mark.parametrize("gamma", [0, 1, 2, 3, 4, 8])
@pytest.mark.parametrize(
    ("stop", "num_tokens", "text"),
    [
        ("n", 3, "alo"),  # early in a long block
        ("long", 4, "a"),  # over three tokens
        ("story", 7, "along "),  # completes inside a token
        ("END", 9, "along story. "),  # with text behind it in the same token
        ("lost", 10, "along story. ENDof it"),  # never
    ],
)
def test_case_07_stop_strings_cut_everything_at_one_place(
    stop: str, num_tokens: int, text: str, gamma: int
) -> None:
    tokenizer = FakeTokenizer([b"?", *STOP_TEXT])
    script = [0, *range(1, 11)]
    engine = ScriptEngine(script, len(tokenizer.pieces))
    drafter = OracleDrafter(script, [gamma, 0, 2], tokenizer.vocab_size)
    asked = request([0], 10, gamma, stops=("Nope", stop), logprobs=1)
    chunks, generation = decode_stream(engine, drafter, tokenizer, asked)
    assert "".join(chunk.text for chunk in chunks) == generation.text == text
    assert generation.token_ids == tuple(range(1, num_tokens + 1))
    assert generation.finish_reason == ("length" if stop == "lost" else "stop")
    assert generation.logprobs is not None
    assert len(generation.logprobs) == generation.stats.num_tokens == num_tokens


def test_case_18_characters_split_over_tokens() -> None:
    text = "👩‍💻 漢字, e\u0301, 🇩🇪!"
    tokenizer = FakeTokenizer([bytes([i]) for i in range(256)])
    script = [0, *text.encode()]
    for gamma in range(9):
        engine = ScriptEngine(script, 256)
        drafter = OracleDrafter(script, [gamma, 1, 0], 256)
        asked = request([0], len(script) - 1, gamma)
        chunks, generation = decode_stream(engine, drafter, tokenizer, asked)
        assert "".join(chunk.text for chunk in chunks) == generation.text == text
        assert all("\ufffd" not in chunk.text for chunk in chunks)


def test_case_18_lone_continuation_bytes_are_flushed() -> None:
    tokenizer = FakeTokenizer([bytes([i]) for i in range(256)])
    engine = ScriptEngine([0x80], 256)
    generation = decode(engine, ConstantDrafter(0x80), tokenizer, request([0], 2000, 8))
    assert generation.text == "\ufffd" * 2000

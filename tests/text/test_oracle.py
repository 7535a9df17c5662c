"""Token ids equal llama.cpp's on every odd string (tests/text/make_oracle.py made the answers)."""

from __future__ import annotations

import pytest

from guessahead.text.tokenizer import Tokenizer
from tests.text import store
from tests.text.odd_strings import odd_strings


@pytest.fixture(scope="module")
def oracle() -> dict:
    return store.load("oracle")


def test_there_are_enough_strings(oracle):
    assert len(set(oracle["texts"])) == len(oracle["texts"]) >= 2000
    assert set(odd_strings()[:600]) <= set(
        oracle["texts"]
    )  # those written by hand, still the ones in the script


@pytest.mark.parametrize("kind", store.KINDS)
def test_plain_ids(kind: str, tokenizers, oracle):
    wrong = [
        text
        for text, ids in zip(oracle["texts"], oracle[kind]["plain"], strict=True)
        if tokenizers[kind].encode(text) != ids
    ]
    assert wrong == []


@pytest.mark.parametrize("kind", store.KINDS)
def test_ids_with_special_tokens(kind: str, tokenizers, oracle):
    special = dict(map(tuple, [(index, tuple(ids)) for index, ids in oracle[kind]["special"]]))
    assert len(special) > 100
    wrong = []
    for index, (text, plain) in enumerate(zip(oracle["texts"], oracle[kind]["plain"], strict=True)):
        if tokenizers[kind].encode(text, special=True) != list(special.get(index, plain)):
            wrong.append(text)
    assert wrong == []


@pytest.mark.parametrize("kind", store.KINDS)
def test_tokens_that_end_a_text(kind: str, tokenizers, oracle):
    assert list(tokenizers[kind].eos_ids) == oracle[kind]["eos_ids"]


def test_decoding_gives_the_text_back(tokenizers, oracle):
    tokenizer: Tokenizer = tokenizers["qwen2"]  # it has a token for every byte
    for text in oracle["texts"]:
        assert tokenizer.decode(tokenizer.encode(text)) == text
        assert tokenizer.decode(tokenizer.encode(text, special=True), skip_special=False) == text


def test_decoding_leaves_out_only_bytes_that_have_no_token(tokenizers, oracle):
    tokenizer: Tokenizer = tokenizers["smollm"]
    for text in oracle["texts"]:
        raw = bytes(byte for byte in text.encode() if byte not in MISSING_BYTES)
        assert tokenizer.decode(tokenizer.encode(text)) == raw.decode(errors="replace")


# SmolLM2's vocabulary lacks these (0xC0, 0xC1 and from 0xF5 on never occur in UTF-8).
MISSING_BYTES = {4, 6, 19, 20, 22, 29, 192, 193, 241, 242, *range(245, 256)}

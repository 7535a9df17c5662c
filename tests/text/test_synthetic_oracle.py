"""Ids equal llama.cpp's on every odd string, with vocabularies made for that (make_synthetic_oracle.py)."""

from __future__ import annotations

from typing import Any

import pytest

from guessahead.errors import TokenizerError
from guessahead.text.pretokenizers import PRE_TOKENIZERS
from guessahead.text.tokenizer import Tokenizer
from tests.text import store
from tests.text.synthetic_kinds import BPE, PIECES, bpe_metadata, pieces_metadata


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return store.load("oracle")["texts"]


@pytest.fixture(scope="module", params=PIECES)
def kind(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    return request.param, store.load(f"pieces_{request.param}")


@pytest.fixture(scope="module")
def bpe() -> dict[str, Any]:
    return store.load(BPE)


def test_pieces(kind, texts):
    name, oracle = kind
    built = Tokenizer.from_gguf(pieces_metadata(name, oracle["pieces"]))
    special = dict(oracle["special"])
    assert len(special) > 100
    pairs = list(enumerate(zip(texts, oracle["plain"], strict=True)))
    assert [text for _, (text, ids) in pairs if built.encode(text, bos=False) != ids] == []
    wrong = [
        text
        for index, (text, ids) in pairs
        if built.encode(text, bos=False, special=True) != special.get(index, ids)
    ]
    assert wrong == []
    assert list(built.eos_ids) == oracle["eos_ids"]


def test_decoding_pieces_gives_the_text_back(kind, texts):
    name, oracle = kind
    built = Tokenizer.from_gguf(pieces_metadata(name, oracle["pieces"]))
    for text in texts:
        shown, wanted = built.decode(built.encode(text)), text.replace("\u2581", " ")
        if name == "words":  # spaces were added
            shown, wanted = shown.replace(" ", ""), wanted.replace(" ", "")
        assert shown == wanted


def test_the_beginning_of_a_text(kind):
    name, oracle = kind
    built = Tokenizer.from_gguf(pieces_metadata(name, oracle["pieces"]))
    bos = built.bos_id
    assert built.encode("a")[0] == bos
    assert built.encode("<s>a", special=True)[:2] != [bos, bos]
    shown = [built.token_text(i) for i in built.encode("a<s>a", special=True, bos=False)]
    assert shown == (["▁a", "<s>", "▁a"] if name == "words" else ["a", "<s>", "a"])


@pytest.mark.parametrize("pre", PRE_TOKENIZERS)
def test_pre_tokenizers(pre, bpe, texts):
    first = next(iter(PRE_TOKENIZERS))
    expected = dict(enumerate(bpe["answers"][first]))
    if pre != first:  # the others are stored by what differs
        expected.update(bpe["answers"][pre])
    built = Tokenizer.from_gguf(bpe_metadata(pre, bpe["merges"]))
    wrong = [text for text, ids in zip(texts, expected.values(), strict=True) if built.encode(text) != ids]
    assert wrong == []


def test_names_of_one_rule_go_together(bpe):
    one, other, third = (
        Tokenizer.from_gguf(bpe_metadata(pre, bpe["merges"])) for pre in ("llama3", "llama-bpe", "dbrx")
    )
    one.check_same(other)
    with pytest.raises(TokenizerError, match="'llama3' and 'dbrx'"):
        one.check_same(third)

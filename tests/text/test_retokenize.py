"""Text between tokenizers of the tiny models, and odd strings."""

from __future__ import annotations

import numpy as np
import pytest

from guessahead.checkpoints.gguf import GGUFFile
from guessahead.text.retokenize import MOST_TAIL, Piece, Reread, Rewritten, continuation
from guessahead.text.tokenizer import Tokenizer
from guessahead.types import Int32
from tests.support.second_tokenizer import with_other_tokenizer
from tests.support.tiny import CORPUS, tiny_gguf, tokenizer_metadata
from tests.text.synthetic_kinds import pieces_metadata


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tokenizer, Tokenizer]:
    folder = tmp_path_factory.mktemp("pair")
    path = tiny_gguf(folder / "one.gguf").path
    with GGUFFile.open(with_other_tokenizer(path, folder / "other.gguf")) as file:
        return Tokenizer.from_gguf(tokenizer_metadata()), Tokenizer.from_gguf(file.metadata)


def ids(tokenizer: Tokenizer, text: str) -> Int32:
    return np.array(tokenizer.encode(text, special=True), np.int32)


TEXTS = (
    CORPUS * 3,
    "<|im_start|>user\nthe quick brown fox<|im_end|>\n<|im_start|>assistant\n" + CORPUS,
    "  leading spaces and\n\n\nlines \t\n end ",
    "emoji \U0001f468\u200d\U0001f469\u200d\U0001f467 and \u4e2d\u6587\u6ca1\u6709\u7a7a\u683c" * 20,
    "x" * 900,
    " " * 700 + "y",
)


@pytest.mark.parametrize("text", TEXTS)
def test_the_text_is_reread_as_it_grows(pair: tuple[Tokenizer, Tokenizer], text: str) -> None:
    """Token by token, in the reader's ids: what they say is the text, and mostly as if read at once."""
    writer, reader = pair
    history = ids(writer, text)
    reread, num_same, num_settled = Reread(writer, reader), 0, 0
    for end in range(1, len(history) + 1):
        found = reread.read(history[:end])
        said = b"".join(writer.token_bytes(token, special=True) for token in history[:end].tolist())
        shown = b"".join(reader.token_bytes(token, special=True) for token in found)
        assert shown + reread.pending == said
        assert reread.num_settled >= num_settled
        num_settled = reread.num_settled
        if not reread.pending:
            num_same += found == reader.encode(said.decode(), special=True)
    assert num_same > 0.9 * sum(1 for _ in range(len(history))) or not text.isascii()
    if len(text) > 4 * MOST_TAIL:
        assert num_settled > 0, "the beginning is not encoded again and again"


def test_bytes_that_are_no_text_are_read_as_such(pair: tuple[Tokenizer, Tokenizer]) -> None:
    writer, reader = pair
    history = np.array([0xFF, 0xE2, 0x82, 0x41, 0xE2], np.int32)  # the first 256 ids are the bytes
    reread = Reread(writer, reader)
    found = reread.read(history)
    assert reread.pending == b"\xe2"
    assert reader.decode(found) == "\ufffd\ufffdA"


def test_a_beginning_and_paddings_are_left_out(pair: tuple[Tokenizer, Tokenizer]) -> None:
    _, reader = pair
    metadata = tokenizer_metadata() | {"tokenizer.ggml.add_bos_token": True}
    writer = Tokenizer.from_gguf(metadata)
    history = ids(writer, "the fox")
    assert history[0] == writer.bos_id
    padded = np.append(history, writer.vocab_size + 3).astype(np.int32)
    assert Reread(writer, reader).read(padded) == reader.encode("the fox")
    assert Reread(reader, writer).read(ids(reader, "the fox")) == history.tolist()


@pytest.mark.parametrize("prefix", [True, False])
def test_a_space_in_front_is_put_there_once(pair: tuple[Tokenizer, Tokenizer], prefix: bool) -> None:
    """SentencePiece puts a space before a text: before the first one, not before each part of it."""
    writer, _ = pair
    reader = pieces_tokenizer(prefix)
    text = "ab ab abab b a " * 30
    history, reread = ids(writer, text), Reread(writer, reader)
    for end in range(1, len(history) + 1):
        found = reread.read(history[:end])
    assert reread.num_settled > 1
    assert found == reader.encode(text)
    assert b"".join(reader.token_bytes(i) for i in continuation(reader, "ab")) == b"ab"


def pieces_tokenizer(prefix: bool) -> Tokenizer:
    pieces = ["a", "b", "\u2581", "ab", "\u2581ab", "\u2581a", "abab"]
    rows = [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3)]
    rows += [(f"<0x{byte:02X}>", 0.0, 6) for byte in range(256)]
    rows += [(piece, -float(i), 1) for i, piece in enumerate(pieces)]
    return Tokenizer.from_gguf(pieces_metadata("words", rows) | {"tokenizer.ggml.add_space_prefix": prefix})


def guesses(writer: Tokenizer, *texts: bytes, pending: bytes = b"", ended: bool = False) -> list[bytes]:
    """The bytes of the tokens that the pieces make."""
    pieces = [Piece(text, 0.5) for text in texts]
    found = Rewritten(writer, pending, writer.vocab_size).guesses(pieces, ended=ended)
    return [writer.token_bytes(token) for token, _ in found]


def test_what_may_still_grow_is_left_out(pair: tuple[Tokenizer, Tokenizer]) -> None:
    writer, _ = pair
    assert guesses(writer, b" quick", b" the") == [b" quick", b" the"], "one piece: most likely a whole word"
    open_word = guesses(writer, b" quick", b" b", b"r")
    assert open_word[0] == b" quick"
    assert b"".join(open_word) != b" quick br"
    assert b"".join(guesses(writer, b" quick", b" b", b"r", ended=True)) == b" quick br"
    assert b"".join(guesses(writer, b" b", b"rown", b" fox")) == b" brown fox"


def test_half_a_character(pair: tuple[Tokenizer, Tokenizer]) -> None:
    """The target has written the first bytes of a character; the draft model says all of it."""
    writer, _ = pair
    euro = "\u20ac".encode()
    assert guesses(writer, euro, b" the", pending=euro[:1]) == [euro[1:2], euro[2:], b" the"]
    assert guesses(writer, b" the", pending=euro[:1]) == []
    assert guesses(writer, euro[:2]) == []
    assert guesses(writer, b" the", euro[:2]) == [b" the"]
    assert guesses(writer, b"\xff", b" the") == []


def test_tokens_that_the_model_lacks_end_the_text(pair: tuple[Tokenizer, Tokenizer]) -> None:
    """A tokenizer may have more tokens than its model has rows."""
    writer, _ = pair
    ids = writer.encode(" the quick brown", bos=False)
    assert [ids.index(max(ids)), len(ids)] == [1, 3]
    pieces = [Piece(b" the", 0.5), Piece(b" quick", 0.5), Piece(b" brown", 0.5)]
    for num_ids, expected in ((max(ids), ids[:1]), (max(ids) + 1, ids)):
        found = Rewritten(writer, b"", num_ids).guesses(pieces, ended=True)
        assert [token_id for token_id, _ in found] == expected


def test_a_chance_counts_once(pair: tuple[Tokenizer, Tokenizer]) -> None:
    """Tokens of several pieces take all their chances, several tokens of one piece take it at the first."""
    writer, _ = pair
    pieces = [Piece(b" br", 0.5), Piece(b"own", 0.25), Piece(b" fox \xe2\x82\xac", 0.125)]
    found = Rewritten(writer, b"", writer.vocab_size).guesses(pieces, ended=True)
    assert [chance for _, chance in found if chance < 1.0][-1] == 0.125
    assert np.prod([chance for _, chance in found]) == 0.5 * 0.25 * 0.125

"""The tokenizer without an oracle: llama-bpe by hand, bytes of tokens, and what is refused."""

from __future__ import annotations

import time

import numpy as np
import pytest

from guessahead.errors import ParameterError, PromptError, TokenizerError
from guessahead.text.tokenizer import Tokenizer
from tests.text import store
from tests.text.synthetic import llama_bpe, stand_ins, tokens

LLAMA = Tokenizer.from_gguf(llama_bpe())
QWEN = Tokenizer.from_gguf(llama_bpe(pre="qwen2"))
ID = {token: token_id for token_id, token in enumerate(tokens())}


def words(tokenizer: Tokenizer, text: str) -> list[str]:
    """The names of the tokens of `text`, spaces written as such."""
    return [
        tokenizer.token_text(i).replace("Ġ", " ").replace("Ċ", "\n")
        for i in tokenizer.encode(text, bos=False)
    ]


@pytest.mark.parametrize(
    ("text", "llama", "qwen2"),
    [
        ("abc", ["abc"], ["abc"]),
        ("cab", ["cab"], ["c", "ab"]),  # no merge makes "cab"; only ignore_merges finds it
        ("bcd", ["bcd"], ["bc", "d"]),
        ("cabs", ["c", "ab", "s"], ["c", "ab", "s"]),
        (" abc", [" abc"], [" ", "abc"]),  # "a b" goes before "Ġ a"
        (" ac", [" a", "c"], [" a", "c"]),
        ("  ab", [" ", " ", "ab"], [" ", " ", "ab"]),  # of two spaces one stays with the word
        ("(ab", ["(", "ab"], ["(", "ab"]),
        ("12345", ["123", "4", "5"], ["1", "2", "3", "4", "5"]),
        ("1234123", ["123", "4", "12", "3"], ["1", "2", "3", "4", "1", "2", "3"]),
        ("we'll", ["w", "e", "'ll"], ["w", "e", "'ll"]),
        ("WE'LL", ["W", "E", "'", "L", "L"], ["W", "E", "'", "L", "L"]),
        ("a\n\nb", ["a", "\n\n", "b"], ["a", "\n", "\n", "b"]),
        (" \n\n", [" ", "\n", "\n"], [" ", "\n", "\n"]),  # one word, and it is no token
    ],
)
def test_words_derived_by_hand(text, llama, qwen2):
    assert words(LLAMA, text) == llama
    assert words(QWEN, text) == qwen2


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("x'S yY", ["x", "'S", " yY"]),
        ("x'ſa", ["x", "'ſa"]),  # U+017F folds to s, but 'ſ is no contraction
        ("a1234567", ["a", "123", "456", "7"]),
        ("٣٤٥٦", ["٣٤٥", "٦"]),
        ("!!\r\n\n x", ["!!\r\n\n", " x"]),
        ("a \t\n  b", ["a", " \t\n", " ", " b"]),
        ("_abc $1", ["_abc", " $", "1"]),
        ("世界。", ["世界", "。"]),
    ],
)
def test_llama_word_borders(text, pieces):
    """A vocabulary of exactly these words, taken whole: the ids show where the text was cut."""
    names = [*tokens()[:256], *dict.fromkeys(stand_ins(piece) for piece in pieces if len(piece.encode()) > 1)]
    built = Tokenizer.from_gguf(
        llama_bpe(tokens=names, token_type=None, merges=[], bos_token_id=None, eos_token_id=None)
    )
    assert [built.token_bytes(i).decode() for i in built.encode(text)] == pieces


def test_bos_where_the_model_asks_for_it():
    bos = ID["<|begin_of_text|>"]
    assert LLAMA.adds_bos
    assert LLAMA.encode("abc") == [bos, ID["abc"]]
    assert LLAMA.encode("abc", bos=False) == [ID["abc"]]
    assert LLAMA.encode("<|begin_of_text|>abc", special=True) == [bos, ID["abc"]]  # not twice
    assert Tokenizer.from_gguf(llama_bpe(add_bos_token=False)).encode("abc") == [ID["abc"]]
    assert QWEN.encode("abc") == [ID["abc"]]
    assert Tokenizer.from_gguf(llama_bpe(pre="qwen2", add_bos_token=True)).encode("abc") == [bos, ID["abc"]]


def test_special_tokens_only_on_request():
    text = "<|eot_id|>abc<tool>"
    assert LLAMA.encode(text, special=True, bos=False) == [ID["<|eot_id|>"], ID["abc"], ID["<tool>"]]
    plain = LLAMA.encode(text, bos=False)
    assert ID["<|eot_id|>"] not in plain
    assert plain[-1] == ID["<tool>"]  # user-defined: always
    assert LLAMA.decode(plain) == text


def test_the_longest_special_token_is_cut_out_first():
    names = [*tokens()[:256], "<a>", "<a><", "<b>"]
    types = [1] * 256 + [3, 3, 3]
    built = Tokenizer.from_gguf(
        llama_bpe(tokens=names, token_type=types, merges=[], bos_token_id=None, eos_token_id=None)
    )
    assert built.encode("<a><b>", special=True) == [257, ord("b"), ord(">")]


def test_ends_of_text():
    assert LLAMA.eos_ids == (ID["<|end_of_text|>"], ID["<|eot_id|>"])
    assert Tokenizer.from_gguf(llama_bpe(eot_token_id=5)).eos_ids == (
        5,
        ID["<|end_of_text|>"],
        ID["<|eot_id|>"],
    )


def test_eos_where_the_file_asks_for_it():
    ends = ID["<|end_of_text|>"]
    built = Tokenizer.from_gguf(llama_bpe(add_eos_token=True))
    assert built.encode("abc")[1:] == [ID["abc"], ends]
    assert built.encode("abc", bos=False) == [ID["abc"]]
    with pytest.raises(TokenizerError, match="asks for an EOS token but has no"):
        Tokenizer.from_gguf(llama_bpe(add_eos_token=True, eos_token_id=None))


@pytest.mark.parametrize("outside", [1 << 20, (1 << 32) - 1, -1])
def test_ids_outside_the_vocabulary_where_nothing_depends_on_them(outside):
    keys = ("eot_token_id", "eom_token_id", "fim_pad_token_id", "padding_token_id", "unknown_token_id")
    for key in keys:
        assert Tokenizer.from_gguf(llama_bpe(**{key: outside})).eos_ids == LLAMA.eos_ids
    assert Tokenizer.from_gguf(llama_bpe(eos_token_id=outside, eot_token_id=5)).eos_ids[0] == 5
    assert Tokenizer.from_gguf(llama_bpe(bos_token_id=outside, add_bos_token=False)).bos_id is None
    for needed in ({"bos_token_id": outside}, {"eos_token_id": outside}):
        with pytest.raises(TokenizerError, match="but the vocabulary has"):
            Tokenizer.from_gguf(llama_bpe(**needed))


def test_empty_text_and_nul(tokenizer):
    assert tokenizer.encode("") == tokenizer.encode("", special=True) == []
    assert tokenizer.decode([]) == ""
    assert tokenizer.decode(tokenizer.encode("a\x00b")) == "a\x00b"


@pytest.mark.parametrize("text", ["a\ud800b", "\udcff", "\ud83d\ude00"])
def test_lone_surrogates_are_refused(tokenizer, text):
    with pytest.raises(PromptError, match="lone surrogate"):
        tokenizer.encode(text)


def test_token_bytes(tokenizers):
    qwen = tokenizers["qwen2"]
    assert qwen.token_bytes(qwen.encode(" the")[0]) == b" the"
    assert [qwen.token_bytes(i) for i in qwen.encode("\x04")] == [b"\x04"]
    end = qwen.encode("<|im_end|>", special=True)[0]
    assert (qwen.token_bytes(end), qwen.token_bytes(end, special=True)) == (b"", b"<|im_end|>")
    tool = qwen.encode("<tool_call>")[0]
    assert qwen.token_bytes(tool) == qwen.token_bytes(tool, special=True) == b"<tool_call>"
    assert qwen.token_bytes(151_900) == qwen.token_bytes(151_900, special=True) == b""  # padding
    assert qwen.vocab_size == 151_936
    assert qwen.token_bytes(np.int32(end), special=True) == b"<|im_end|>"


def test_every_byte_token_is_its_byte():
    assert [LLAMA.token_bytes(i) for i in range(256)] == [bytes([i]) for i in range(256)]


@pytest.mark.parametrize("token_id", [-1, 151_936, 1 << 40, "x", 1.5, None])
def test_ids_outside_the_vocabulary_are_refused(tokenizers, token_id):
    for special in (False, True):
        with pytest.raises(ParameterError, match="token id"):
            tokenizers["qwen2"].token_bytes(token_id, special=special)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "t5"}, "'t5' is not supported"),
        ({"model": "llama"}, "lacks tokenizer.ggml.scores"),
        ({"model": "llama", "scores": [0.5]}, f"scores has 1 entries for {len(ID)} tokens"),
        ({"model": "llama", "scores": ["a"] * len(ID)}, r"scores\[0\] is not a number"),
        ({"model": "llama", "scores": [float("nan")] * len(ID)}, r"scores\[0\] is not a number"),
        ({"model": "llama", "scores": [0.0] * len(ID)}, "no token for the byte 0x00"),
        ({"model": "llama", "scores": [0.0] * len(ID), "add_space_prefix": 1}, "not true or false"),
        ({"model": None}, "contains no tokenizer"),
        ({"pre": "poro-chat"}, "'poro-chat' is not supported .*smollm, .*qwen2, .*llama-bpe"),
        ({"pre": None}, "lacks tokenizer.ggml.pre"),
        ({"tokens": None}, "lacks tokenizer.ggml.tokens"),
        ({"tokens": []}, "tokens is empty"),
        ({"tokens": "abc"}, "tokens is not a list"),
        ({"tokens": ["a", 5]}, r"tokens\[1\] is not a string"),
        ({"tokens": [*tokens()[:-1], "ab"]}, f"'ab' twice: ids {ID['ab']} and {len(ID) - 1}"),
        ({"merges": None}, "lacks tokenizer.ggml.merges"),
        ({"merges": ["ab"]}, r"merges\[0\] is not two tokens"),
        ({"merges": ["a b", "a b c"]}, r"merges\[1\] is not two tokens"),
        ({"merges": ["a "]}, r"merges\[0\] is not two tokens"),
        ({"merges": [b"a b"]}, r"merges\[0\] is not a string"),
        ({"merges": ["x zz"]}, "merges do not fit its vocabulary: .*zz"),
        ({"merges": ["x y"]}, "merges do not fit its vocabulary: .*xy"),
        ({"token_type": [1, 1]}, "token_type has 2 entries"),
        ({"token_type": ["1"] * len(ID)}, r"token_type\[0\] is not an integer"),
        ({"token_type": 1}, "token_type is not a list"),
        ({"eos_token_id": len(ID)}, f"eos_token_id is {len(ID)}, but the vocabulary has"),
        ({"bos_token_id": -1}, "bos_token_id is -1"),
        ({"eot_token_id": "x"}, "eot_token_id is not an integer"),
        ({"bos_token_id": None, "add_bos_token": True}, "asks for a BOS token"),
    ],
)
def test_damaged_metadata_is_one_clear_line(changes, message):
    with pytest.raises(TokenizerError, match=message) as caught:
        Tokenizer.from_gguf(llama_bpe(**changes))
    assert "\n" not in str(caught.value)


def test_numpy_lists_and_repeated_merges_and_holes_are_fine():
    built = Tokenizer.from_gguf(
        llama_bpe(
            pre="qwen2",
            tokens=[*tokens(), ""],
            token_type=np.ones(len(ID) + 1, np.int32),
            merges=["b c", "a b", "b c"],  # the first of two equal merges counts
            eos_token_id=np.uint32(3),
        )
    )
    assert words(built, "abc") == ["a", "bc"]
    assert built.eos_ids == (3, ID["<|end_of_text|>"], ID["<|eot_id|>"])  # known by name though marked normal
    assert built.token_bytes(ID["<|eot_id|>"]) == b""


def test_the_same_tokenizer_with_more_padding(tokenizers):
    """CASES 15: 151936 and 152064 entries."""
    padded = store.metadata("qwen2")
    names = padded["tokenizer.ggml.tokens"]
    padded["tokenizer.ggml.tokens"] = names[:151_665] + [f"<unused{i}>" for i in range(152_064 - 151_665)]
    padded["tokenizer.ggml.token_type"] = padded["tokenizer.ggml.token_type"][:151_665] + [5] * (
        152_064 - 151_665
    )
    larger = Tokenizer.from_gguf(padded)
    assert larger.vocab_size == 152_064
    tokenizers["qwen2"].check_same(larger)
    larger.check_same(tokenizers["qwen2"])


def test_two_swapped_ids_are_named(tokenizers):
    swapped = store.metadata("qwen2")
    names = list(swapped["tokenizer.ggml.tokens"])
    names[1000], names[777] = names[777], names[1000]
    swapped["tokenizer.ggml.tokens"] = names
    with pytest.raises(TokenizerError, match="id 777 is ") as caught:
        tokenizers["qwen2"].check_same(Tokenizer.from_gguf(swapped))
    assert repr(names[777]) in str(caught.value)
    assert repr(names[1000]) in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pre": "qwen2", "add_bos_token": True}, "split text differently"),
        ({"tokens": [*tokens(), "more"], "token_type": None}, f"id {len(ID)} is 'more' in one and missing"),
        ({"eos_token_id": 7}, "end a text with different tokens"),
        ({"add_bos_token": False}, "begin a text differently"),
        ({"bos_token_id": 7}, "begin a text differently: with token .* and with token 7"),
    ],
)
def test_tokenizers_that_differ(changes, message):
    other = Tokenizer.from_gguf(llama_bpe(**changes))
    for first, second in ((LLAMA, other), (other, LLAMA)):
        with pytest.raises(TokenizerError, match=message if first is LLAMA else "differ"):
            first.check_same(second)


def test_two_real_tokenizers_differ(tokenizers):
    with pytest.raises(TokenizerError, match="'smollm' and 'qwen2'"):
        tokenizers["smollm"].check_same(tokenizers["qwen2"])


def test_long_words_of_pieces_take_linear_time():
    names = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), "a", "aa", "aaaa"]
    values = {
        "tokens": names,
        "token_type": [2, *[6] * 256, 1, 1, 1],
        "scores": [0.0] * 257 + [-3.0, -1.0, -2.0],
    }
    ends = {"bos_token_id": None, "eos_token_id": None}
    built = Tokenizer.from_gguf(llama_bpe(model="llama", add_space_prefix=False, **values, **ends))
    started = time.process_time()
    assert built.encode("a" * 200_001) == [259] * 50_000 + [257]
    assert time.process_time() - started < 10  # quadratic would be minutes

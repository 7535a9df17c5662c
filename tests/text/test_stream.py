"""Streaming text: every piece against a slow reference that looks at the whole text after each token."""

from __future__ import annotations

import codecs
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from guessahead.errors import ParameterError, StateError
from guessahead.text.stream import StopMatcher, StreamDecoder
from guessahead.text.tokenizer import Tokenizer
from tests.text import store
from tests.text.synthetic import llama_bpe, tokens

BYTES = Tokenizer.from_gguf(llama_bpe())  # ids 0..255 are the bytes
EOS = tokens().index("<|end_of_text|>")
FAMILY = "👨‍👩‍👧‍👦 e\u0301 世界"


class Reference:
    """What StreamDecoder must show, by searching everything again after every token."""

    def __init__(self, stops: list[str]) -> None:
        self.stops = stops
        self.raw = b""
        self.shown = 0
        self.length = 0
        self.stopped = False

    def _text(self, *, final: bool) -> str:
        return codecs.getincrementaldecoder("utf-8")(errors="replace").decode(self.raw, final)

    def add(self, raw: bytes, *, final: bool = False) -> str:
        self.raw += raw
        text = self._text(final=final)
        starts = [
            start
            for stop in self.stops
            for start in range(len(text))
            if text.startswith(stop, start) and start + len(stop) > self.length
        ]
        self.length = len(text)
        if starts:
            self.stopped = True
            end = min(starts)
        elif final:
            end = len(text)
        else:
            tails = [text[-n:] for stop in self.stops for n in range(1, len(stop)) if text.endswith(stop[:n])]
            end = len(text) - max(map(len, tails), default=0)
        piece, self.shown = text[self.shown : end], end
        return piece


def check(chunks: list[bytes], stops: list[str]) -> None:
    """Run both over tokens that hold `chunks`."""
    decoder, reference = StreamDecoder(_Chunks(chunks), stops), Reference(stops)
    for token_id, chunk in enumerate(chunks):
        assert decoder.add(token_id) == reference.add(chunk)
        assert decoder.stopped == reference.stopped
        if decoder.stopped:
            assert decoder.finish() == ""
            return
    assert decoder.finish() == reference.add(b"", final=True)
    assert decoder.stopped == reference.stopped


class _Chunks(Tokenizer):
    """Token i holds the bytes chunks[i]."""

    def __init__(self, chunks: list[bytes]) -> None:
        self._chunks = chunks

    def token_bytes(self, token_id: int, *, special: bool = False) -> bytes:
        return self._chunks[token_id]

    def cut_control(self, text: str) -> list[str | int]:
        return [text]


@given(st.lists(st.binary(max_size=5), max_size=20))
@example([b"\xf0\x9f", b"\x98", b"\x80"])
@example([b"\xe4\xb8", b"a", b"\xf0\x90", b"\x80"])
@example([b"\xed\xa0", b"\x80", b"\xf4\x90\x80\x80"])
def test_pieces_join_to_the_decoded_text(chunks):
    tokenizer = _Chunks(chunks)
    decoder = StreamDecoder(tokenizer)
    pieces = [decoder.add(i) for i in range(len(chunks))]
    assert "".join([*pieces, decoder.finish()]) == tokenizer.decode(range(len(chunks)))
    check(chunks, [])


SMALL = st.text("abé", max_size=4)


@given(st.lists(SMALL, max_size=14), st.lists(st.text("abé", min_size=1, max_size=5), max_size=4))
@example(["a", "ab", "b"], ["abc", "b"])  # completes in the second token, though "abc" could still come
@example(["xab"], ["ab", "xa", "xab"])  # one token: the earliest start
@example(["aab", "aab"], ["abaab", "aabaab"])
def test_stop_strings_against_the_reference(texts, stops):
    check([text.encode() for text in texts], stops)


@given(st.text("ab世", max_size=12), st.lists(st.text("ab世", min_size=1, max_size=4), max_size=3))
def test_stop_strings_byte_by_byte(text, stops):
    check([bytes([byte]) for byte in text.encode()], stops)


def test_a_stop_string_over_three_tokens():
    decoder = StreamDecoder(_Chunks([b"Hello <", b"/en", b"d> more", b"x"]), ["</end>"])
    assert [decoder.add(0), decoder.add(1), decoder.add(2)] == ["Hello ", "", ""]
    assert decoder.stopped
    with pytest.raises(StateError):
        decoder.add(3)


def test_held_back_text_comes_out_when_no_stop_string_follows():
    decoder = StreamDecoder(_Chunks([b"a <", b"/x>", b" </"]), ["</end>"])
    assert [decoder.add(0), decoder.add(1), decoder.add(2)] == ["a ", "</x>", " "]
    assert (decoder.finish(), decoder.finish()) == ("</", "")
    assert not decoder.stopped
    with pytest.raises(StateError):
        decoder.add(0)


@pytest.mark.parametrize("kind", store.KINDS)
def test_no_character_is_split(kind, tokenizers):
    """CASES 18: no replacement character in any piece, and each piece as early as its last byte allows."""
    tokenizer = tokenizers[kind]
    text = FAMILY * 3
    ids = tokenizer.encode(text)
    assert any("\ufffd" in tokenizer.decode([token_id]) for token_id in ids)  # otherwise this shows nothing
    decoder = StreamDecoder(tokenizer)
    shown = ""
    for position, token_id in enumerate(ids):
        shown += decoder.add(token_id)
        whole = b"".join(map(tokenizer.token_bytes, ids[: position + 1]))
        assert shown == whole.decode("utf-8", errors="ignore")
    assert shown + decoder.finish() == text


@pytest.mark.parametrize("stops", [[], ["\ufffd!", "stop"]])
def test_lone_continuation_bytes_do_not_pile_up(stops):
    """CASES 18: each byte is shown as soon as no stop string can hold it, whatever came before."""
    decoder = StreamDecoder(BYTES, stops)
    pieces = [decoder.add(0x80) for _ in range(2000)]
    assert max(map(len, pieces)) == 1
    assert len("".join(pieces)) == 2000 - bool(stops)
    assert "".join(pieces) + decoder.finish() == "\ufffd" * 2000 == BYTES.decode([0x80] * 2000)


def test_a_long_stop_string_that_fails_again_and_again_on_its_last_character():
    decoder = StreamDecoder(BYTES, ["a" * 500 + "b"])
    text = "".join(decoder.add(ord("a")) for _ in range(3000))
    assert len(text) == 3000 - 500
    assert decoder.add(ord("b")) == ""
    assert decoder.stopped


def test_control_tokens_show_nothing():
    decoder = StreamDecoder(BYTES, ["zz"])
    assert [decoder.add(i) for i in (ord("a"), 0xC3, EOS, 0xA9, EOS)] == ["a", "", "", "é", ""]
    assert decoder.finish() == ""


def test_an_unfinished_character_at_the_end():
    decoder = StreamDecoder(BYTES)
    assert [decoder.add(byte) for byte in b"a\xf0\x9f\x98"] == ["a", "", "", ""]
    assert decoder.finish() == "\ufffd"


@pytest.mark.parametrize("stops", [[""], ["a", ""], [None], [5], "text"])
def test_bad_stop_strings_are_refused(stops):
    with pytest.raises(ParameterError, match="stop string"):
        StreamDecoder(BYTES, stops)


def test_an_id_outside_the_vocabulary_is_refused():
    with pytest.raises(ParameterError, match="outside the vocabulary"):
        StreamDecoder(BYTES).add(10**6)


def naive(pieces: list[str], stops: list[str]) -> tuple[str, bool]:
    """The text before the stop string that completes in the earliest piece; of several the first to start."""
    text = ""
    for piece in pieces:
        before = len(text)
        text += piece
        ends = [
            start
            for stop in stops
            for start in range(len(text))
            if text.startswith(stop, start) and start + len(stop) > before
        ]
        if ends:
            return text[: min(ends)], True
    return text, False


@pytest.mark.parametrize("seed", range(300))
def test_stops_are_found_as_a_naive_search_finds_them(seed: int) -> None:
    random = Random(seed)
    stops = ["".join(random.choices("ab", k=random.randint(1, 5))) for _ in range(random.randint(0, 4))]
    pieces = ["".join(random.choices("abc", k=random.randint(0, 4))) for _ in range(30)]
    matcher = StopMatcher(stops)
    shown, held = "", ""
    found = False
    for piece in pieces:
        start = matcher.feed(piece)
        text = held + piece
        if start is not None:
            shown, found = shown + text[: len(held) + start], True
            break
        cut = len(text) - matcher.num_held
        assert not any(stop.startswith(text[at:]) for stop in stops for at in range(cut)), "held too little"
        shown, held = shown + text[:cut], text[cut:]
    assert (shown + ("" if found else held), found) == naive(pieces, stops)

"""Stop strings that contain control tokens, and those that complete too early."""

from __future__ import annotations

from random import Random

import pytest

from guessahead.text.stream import StreamDecoder
from guessahead.text.tokenizer import Tokenizer
from tests.text.synthetic import llama_bpe, tokens

BYTES = Tokenizer.from_gguf(llama_bpe())  # ids 0..255 are the bytes
EOS = tokens().index("<|end_of_text|>")
NAME = "<|end_of_text|>"


def shown(parts: list[str | int], stops: list[str], min_tokens: int = 0) -> tuple[str, int, bool]:
    """The text, the number of tokens taken and whether a stop string completed; text goes in byte by byte."""
    ids = [i for part in parts for i in ([part] if isinstance(part, int) else part.encode())]
    decoder, text = StreamDecoder(BYTES, stops, min_tokens), ""
    for number, token_id in enumerate(ids, start=1):
        text += decoder.add(token_id)
        if decoder.stopped:
            assert decoder.finish() == ""
            return text, number, True
    return text + decoder.finish(), len(ids), False


@pytest.mark.parametrize(
    ("parts", "stop", "text", "num_tokens"),
    [
        (["ab", EOS, "cd"], NAME, "ab", 3),
        (["ab", EOS, "cd"], f"b{NAME}", "a", 3),
        (["ab", EOS, "cd"], f"{NAME}c", "ab", 4),
        (["ab", EOS, "cd"], f"b{NAME}c", "a", 4),
        (["ab", EOS, EOS, "cd"], f"b{NAME}{NAME}c", "a", 5),
        (["aé", EOS, "世"], f"é{NAME}世", "a", 7),
        (["ab", NAME, "cd"], f"b{NAME}c", "a", 18),  # the same text, in letters
        (["abb", EOS], f"b{NAME}", "ab", 4),
        (["b", EOS, "b", EOS, "c"], f"b{NAME}c", "b", 5),  # begins twice
    ],
)
def test_a_control_token_matches_its_name(
    parts: list[str | int], stop: str, text: str, num_tokens: int
) -> None:
    assert shown(parts, ["never", stop]) == (text, num_tokens, True)


@pytest.mark.parametrize(
    ("parts", "stop", "text"),
    [
        (["ab", EOS, "cd"], "end", "abcd"),  # a part of its name
        (["ab", EOS, "cd"], f"{NAME}d", "abcd"),
        (["abcd"], f"b{NAME}c", "abcd"),
        (["ab", EOS], f"b{NAME}c", "ab"),  # held back, and then shown
    ],
)
def test_what_is_not_the_stop_string(parts: list[str | int], stop: str, text: str) -> None:
    assert shown(parts, [stop])[::2] == (text, False)


def test_other_stop_strings_do_not_see_control_tokens() -> None:
    assert shown(["ab", EOS, "cd"], ["bc", f"x{NAME}"]) == ("a", 4, True)


def test_the_token_that_ends_the_text_shows_nothing() -> None:
    for stop, stopped, text in (("b", False, "a"), (f"a{NAME}", True, "")):
        decoder = StreamDecoder(BYTES, [stop])
        pieces = decoder.add(ord("a")) + decoder.end(EOS)
        assert (pieces + decoder.finish(), decoder.stopped) == (text, stopped)
    decoder = StreamDecoder(BYTES)
    assert decoder.end(ord("a")) + decoder.finish() == ""


@pytest.mark.parametrize(
    ("min_tokens", "text", "num_tokens", "stopped"),
    [
        (0, "", 2, True),
        (1, "", 2, True),
        (2, "abc", 5, True),  # what is complete with the second token is text
        (4, "abc", 5, True),
        (5, "abcab", 5, False),
    ],
)
def test_what_completes_too_early_is_text(min_tokens: int, text: str, num_tokens: int, stopped: bool) -> None:
    assert shown(["abcab"], ["ab"], min_tokens) == (text, num_tokens, stopped)


def test_a_control_token_that_comes_too_early_is_passed() -> None:
    assert shown(["a", EOS, "b", EOS, "c"], [NAME], 2) == ("ab", 4, True)


def naive(ids: list[int], stops: list[str], min_tokens: int) -> tuple[str, int, bool]:
    """By searching everything after every token; a control token is the letter ! in `stops`."""
    for number in range(min_tokens + 1, len(ids) + 1):
        text = "".join("!" if i == EOS else chr(i) for i in ids[:number])
        starts = []
        for stop in stops:
            seen = text if "!" in stop else text.replace("!", "")
            if seen.endswith(stop) and (len(stop) > 0 and (ids[number - 1] != EOS or "!" in stop)):
                start = len(seen) - len(stop)
                starts.append(len(seen[:start].replace("!", "")))
        if starts:
            return text.replace("!", "")[: min(starts)], number, True
    return "".join(chr(i) for i in ids if i != EOS), len(ids), False


@pytest.mark.parametrize("seed", range(200))
def test_against_a_search_of_everything(seed: int) -> None:
    random = Random(seed)
    ids = random.choices([ord("a"), ord("b"), EOS], k=30)
    stops = ["".join(random.choices("ab!", k=random.randint(1, 5))) for _ in range(random.randint(0, 3))]
    min_tokens = random.choice([0, 0, 3, 10])
    parts: list[str | int] = [token_id if token_id == EOS else chr(token_id) for token_id in ids]
    found = shown(parts, [stop.replace("!", NAME) for stop in stops], min_tokens)
    assert found == naive(ids, stops, min_tokens)

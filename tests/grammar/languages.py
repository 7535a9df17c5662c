"""Random finite languages with their regular expressions, and vocabularies: what masks must equal."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.support.fake_text import FakeTokenizer

ALPHABET = "abc"
MOST_TEXTS = 400


@dataclass(frozen=True)
class Language:
    """A regular expression and every text that it matches as a whole."""

    regex: str
    texts: frozenset[str]

    def allows(self, before: str, piece: str) -> bool:
        """Whether some text begins so."""
        return any(text.startswith(before + piece) for text in self.texts)

    def goes_on(self, before: str) -> bool:
        """Whether some text is longer."""
        return any(text.startswith(before) and len(text) > len(before) for text in self.texts)

    def forced(self, before: str) -> str:
        """The text that must follow."""
        ways = {text[len(before) :] for text in self.texts if text.startswith(before)}
        found = ""
        while len({way[: len(found) + 1] for way in ways}) == 1 and all(
            len(way) > len(found) for way in ways
        ):
            found = next(iter(ways))[: len(found) + 1]
        return found


def random_language(random_: random.Random, depth: int = 3) -> Language:
    """Alternatives, sequences, repeats and letters, with few texts."""
    while True:
        found = _random(random_, depth)
        if 0 < len(found.texts) <= MOST_TEXTS and found.texts != {""}:
            return found


def _random(random_: random.Random, depth: int) -> Language:
    kind = random_.choice(["letters", "either", "then", "then", "repeat"]) if depth else "letters"
    if kind == "letters":
        word = "".join(random_.choice(ALPHABET) for _ in range(random_.randint(1, 3)))
        return Language(word, frozenset([word]))
    first = _random(random_, depth - 1)
    if kind == "repeat":
        low = random_.randint(0, 1)
        high = random_.randint(max(low, 1), 2)
        texts = {""} if low == 0 else set()
        ends = {""}
        for count in range(1, high + 1):
            ends = {end + each for end in ends for each in first.texts}
            texts |= ends if count >= low else set()
        return Language(f"(?:{first.regex}){{{low},{high}}}", frozenset(texts))
    second = _random(random_, depth - 1)
    if kind == "either":
        return Language(f"(?:{first.regex}|{second.regex})", first.texts | second.texts)
    return Language(
        f"(?:{first.regex})(?:{second.regex})", frozenset(a + b for a in first.texts for b in second.texts)
    )


def random_vocabulary(random_: random.Random) -> FakeTokenizer:
    """Each letter, longer pieces, some of them twice, padding, and two tokens that end a text."""
    pieces = [letter.encode() for letter in ALPHABET + "d"]
    for _ in range(random_.randint(4, 40)):
        pieces.append("".join(random_.choice(ALPHABET) for _ in range(random_.randint(1, 4))).encode())
    pieces += [b"", b"<eos>", b"<end>", b""]
    return FakeTokenizer(pieces, (len(pieces) - 3, len(pieces) - 2))

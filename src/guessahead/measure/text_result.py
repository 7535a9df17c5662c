"""The results of measuring a text (texts.py), and the expected speed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from guessahead.measure.formulas import Costs, predict_tau


@dataclass(frozen=True, slots=True)
class TextAcceptance:
    """The measurement of one text.

    num_tokens: positions measured. num_guessed: those with a guess.
    tested_at[i], accepted_at[i]: tested guesses at depth i, and the sum of their acceptance probabilities.
    along: acceptance of first guesses, in parts of equal length from the start of the text to its end; None
        for a part without guesses.
    guess_seconds: time of one guess.
    """

    name: str
    num_tokens: int
    num_guessed: int
    tested_at: tuple[int, ...]
    accepted_at: tuple[float, ...]
    along: tuple[float | None, ...]
    guess_seconds: float

    @property
    def alpha(self) -> float | None:
        """Accepted / tested guesses; None if nothing was guessed."""
        tested = sum(self.tested_at)
        return sum(self.accepted_at) / tested if tested else None

    @property
    def share(self) -> float:
        """The share of positions with a guess."""
        return self.num_guessed / self.num_tokens


@dataclass(frozen=True, slots=True)
class Expectation:
    """The expected results: the best gamma, tokens per pass, speed over plain decoding."""

    gamma: int
    tau: float
    speedup: float


def expect(found: TextAcceptance, costs: Costs, max_gamma: int) -> Expectation:
    """The expectation by formulas.py; steps without a guess are plain steps."""
    alpha = found.alpha or 0.0

    def speed(gamma: int) -> float:
        seconds = found.share * (gamma * costs.c + costs.v(gamma + 1)) + 1 - found.share
        return _tau(found, alpha, gamma) / seconds

    best = max(range(max_gamma + 1), key=lambda gamma: (speed(gamma), -gamma))
    return Expectation(best, _tau(found, alpha, best), speed(best))


def pooled(name: str, texts: Sequence[TextAcceptance]) -> TextAcceptance:
    """Several texts as one: all counts added, without the acceptance along the text."""
    num_guesses = [sum(text.tested_at) for text in texts]
    seconds = sum(text.guess_seconds * num for text, num in zip(texts, num_guesses, strict=True))
    return TextAcceptance(
        name=name,
        num_tokens=sum(text.num_tokens for text in texts),
        num_guessed=sum(text.num_guessed for text in texts),
        tested_at=tuple(map(sum, zip(*(text.tested_at for text in texts), strict=True))),
        accepted_at=tuple(map(sum, zip(*(text.accepted_at for text in texts), strict=True))),
        along=(),
        guess_seconds=seconds / sum(num_guesses) if sum(num_guesses) else 0.0,
    )


def _tau(found: TextAcceptance, alpha: float, gamma: int) -> float:
    return found.share * predict_tau(alpha, gamma) + 1 - found.share

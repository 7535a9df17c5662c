"""What was measured of the guesses on a text (texts.py), and what to expect from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from guessahead.measure.formulas import Costs, predict_tau


@dataclass(frozen=True, slots=True)
class TextAcceptance:
    """What was measured on one text.

    num_tokens: places measured. num_guessed: those where the drafter had a guess.
    tested_at[i], accepted_at[i]: guesses at depth i that counted as tested, and the sum of their worth.
    along: acceptance of first guesses, in parts of equal length from the start of the text to its end; None
        where nothing was guessed.
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
        """The part of the places where there was a guess."""
        return self.num_guessed / self.num_tokens


@dataclass(frozen=True, slots=True)
class Expectation:
    """What to expect of guesses of this kind: the best gamma, tokens per pass, speed over plain decoding."""

    gamma: int
    tau: float
    speedup: float


def expect(found: TextAcceptance, costs: Costs, max_gamma: int) -> Expectation:
    """By the formulas of formulas.py; steps without a guess are plain steps."""
    alpha = found.alpha or 0.0

    def speed(gamma: int) -> float:
        seconds = found.share * (gamma * costs.c + costs.v(gamma + 1)) + 1 - found.share
        return _tau(found, alpha, gamma) / seconds

    best = max(range(max_gamma + 1), key=lambda gamma: (speed(gamma), -gamma))
    return Expectation(best, _tau(found, alpha, best), speed(best))


def pooled(name: str, texts: Sequence[TextAcceptance]) -> TextAcceptance:
    """Several texts as one: all counts added (and nothing said about where in the text)."""
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

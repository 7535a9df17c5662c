"""Guess that the text goes on as it did the last time these words stood there.

The last tokens are looked up in the prompt and the output so far: the longest match wins, then the most
recent one, and what followed it is the guess. Text that repeats itself (code, edits, answers that quote the
prompt) is guessed well, at no cost. (Saxena 2023, "prompt lookup decoding"; Yang et al. 2023, "LLMA".)

This is the drafter to copy from when you write your own (docs/writing-a-drafter.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from guessahead.drafters.base import STATED_PRIOR, Drafter, Prior
from guessahead.drafters.suffix_texts import NOVELTY
from guessahead.errors import ParameterError
from guessahead.types import NO_DRAFT, Draft

if TYPE_CHECKING:
    from guessahead.drafters.base import DrafterResources
    from guessahead.types import Ask, Int32


@dataclass(frozen=True, slots=True)
class PromptLookupOptions:
    """max_ngram: most tokens compared. min_ngram: shortest match that counts, 1 <= min_ngram <= max_ngram."""

    max_ngram: int = 8
    min_ngram: int = 2

    def __post_init__(self) -> None:
        if not 1 <= self.min_ngram <= self.max_ngram:
            raise ParameterError(
                f"1 <= min_ngram <= max_ngram must hold, not {self.min_ngram} and {self.max_ngram}"
            )


class PromptLookup(Drafter):
    """Copies what followed the longest, most recent earlier passage equal to the last tokens."""

    name: ClassVar[str] = "prompt-lookup"
    Options: ClassVar[type] = PromptLookupOptions
    prior: ClassVar[Prior | None] = STATED_PRIOR

    def __init__(self, options: PromptLookupOptions, resources: DrafterResources) -> None:
        self._options = options

    def propose(self, ask: Ask) -> Draft:
        history = ask.context.history
        end, length = longest_match(history, self._options.max_ngram)
        if length < self._options.min_ngram:
            return NO_DRAFT
        # Past the end of the text the guess goes on with its own first tokens.
        guesses = np.resize(history[end:], ask.budget)
        # Each right guess makes the match one longer, and longer matches are right more often.
        lengths = np.minimum(length + np.arange(ask.budget), len(NOVELTY) - 1)
        probabilities = 1.0 / (1.0 + np.array(NOVELTY)[lengths])
        return Draft(guesses, probabilities=probabilities.astype(np.float32))


def longest_match(history: Int32, max_ngram: int) -> tuple[int, int]:
    """(index behind it, length) of the longest earlier passage that equals the last tokens.

    Of several the most recent one; (0, 0) where even the last token stands nowhere else.
    """
    ends, length = np.flatnonzero(history[:-1] == history[-1]) + 1, 0  # behind every match of so many tokens
    end = 0
    while len(ends) and length < max_ngram:
        end, length = int(ends[-1]), length + 1
        ends = ends[ends > length]
        ends = ends[history[ends - length - 1] == history[-length - 1]] if length < len(history) else ends[:0]
    return end, length

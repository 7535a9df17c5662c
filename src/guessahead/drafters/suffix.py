"""Guess that the text goes on as it did after the longest passage that stood here before.

The end of the text is looked up in the prompt and the output so far, at any length, and, if asked for, in
finished outputs of this process and in files. What followed there, and how often, gives a tree of guesses;
the longer the match, the surer and the longer they are. (Suffix decoding: Oliaro et al. 2024.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from guessahead._native import SuffixLookup
from guessahead.controller.probability import TRUE_TO_ITS_WORD, Prior
from guessahead.drafters import suffix_texts
from guessahead.drafters.base import Drafter, Setup
from guessahead.errors import ParameterError
from guessahead.types import EMPTY_IDS, Choice, Draft, Int32, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from guessahead._native import SuffixAutomaton

# A guess below this chance (by the drafter's own counts) never paid in any measured setting.
LEAST_CHANCE: Final = 0.04
_NOTHING: Final = Draft()
_INT32_MAX: Final = 2**31 - 1  # more than any text has tokens


@dataclass(frozen=True, slots=True)
class SuffixOptions:
    """min_match: shortest passage that counts, at least 1. branches: most guesses under one node, at least 1.

    remember: most tokens of finished outputs that this process keeps and looks up, too; 0 = none (the
        default: a request that is repeated, as benchmarks do, would be guessed from its own answer).
    corpus: a text file, or a folder of them, to look up, too.
    """

    min_match: int = 1
    branches: int = 2
    remember: int = 0
    corpus: str = ""

    def __post_init__(self) -> None:
        if self.min_match < 1 or self.branches < 1 or self.remember < 0:
            raise ParameterError(
                "min_match and branches must be at least 1 and remember at least 0, not "
                f"{self.min_match}, {self.branches} and {self.remember}"
            )


class Suffix(Drafter):
    """Guesses from everything that followed the longest passage equal to the end of the text."""

    name: ClassVar[str] = "suffix"
    Options: ClassVar[type] = SuffixOptions
    prior: ClassVar[Prior | None] = TRUE_TO_ITS_WORD

    def __init__(self, options: SuffixOptions, setup: Setup) -> None:
        self._options = options
        self._vocab_size = setup.engine.info.vocab_size
        self._shelf = suffix_texts.shelf(setup.engine, options.remember)
        self._corpus = suffix_texts.corpus(options.corpus, setup.tokenizer) if options.corpus else None
        self._lookup = self._look_up([])
        self._kept = EMPTY_IDS  # prompt and output as of the last `propose`, and what came after it
        self._since: list[Int32] = []
        self._num_prompt = 0

    def begin(self, prompt_ids: Int32, choice: Choice) -> None:
        # The prompt is indexed by the first `propose`, after the first token, which must not wait for it.
        self._lookup = self._look_up([*self._shelf.automata(), *([self._corpus] if self._corpus else [])])
        self._num_prompt = len(prompt_ids)
        self._kept, self._since = prompt_ids, []

    def propose(self, choice: Choice, budget: int) -> Draft:
        self._kept = choice.history
        self._since.clear()
        found = self._lookup.guess(choice.history, budget, max(LEAST_CHANCE, self.least_chance))
        return _NOTHING if found is None else Draft(*found)

    def observe(self, verdict: Verdict) -> None:
        self._since.append(verdict.token_ids)

    def end(self) -> None:
        if self._options.remember:
            output = np.concatenate([self._kept[self._num_prompt :], *self._since])
            self._shelf.add(output.tolist())
        self._lookup = self._look_up([])
        self._kept, self._since = EMPTY_IDS, []

    def _look_up(self, others: Sequence[SuffixAutomaton]) -> SuffixLookup:
        """In a text that begins now, and in these."""
        return SuffixLookup(
            others=others,
            min_match=min(self._options.min_match, _INT32_MAX),
            branches=min(self._options.branches, _INT32_MAX),
            vocab_size=self._vocab_size,
            novelty=suffix_texts.NOVELTY,
        )

"""Guess that the text goes on as it did after the longest passage that stood here before.

The end of the text is looked up in the prompt and the output so far, at any length, and, if asked for, in
finished outputs of this process and in files. What followed there, and how often, gives a tree of guesses;
the longer the match, the surer and the longer they are. (Suffix decoding: Oliaro et al. 2024.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from guessahead.drafters import suffix_texts
from guessahead.drafters.base import STATED_PRIOR, Drafter, DrafterResources, Prior
from guessahead.errors import ParameterError
from guessahead.types import EMPTY_IDS, NO_DRAFT, Ask, ChoiceContext, Draft, HiddenStates, Int32, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from guessahead._native import SuffixAutomaton, SuffixLookup

# A guess below this probability (by the drafter's own counts) never paid in any measured setting.
LEAST_PROBABILITY: Final = 0.04
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
    prior: ClassVar[Prior | None] = STATED_PRIOR

    def __init__(self, options: SuffixOptions, resources: DrafterResources) -> None:
        self._options = options
        self._vocab_size = resources.engine.info.vocab_size
        self._shelf = suffix_texts.shelf(resources.engine, options.remember)
        self._corpus = suffix_texts.corpus(options.corpus, resources.tokenizer) if options.corpus else None
        self._lookup = self._look_up([])
        self._kept = EMPTY_IDS  # prompt and output as of the last `propose`, and what came after it
        self._since: list[Int32] = []
        self._num_prompt = 0

    def begin(self, context: ChoiceContext) -> None:
        # The prompt is indexed by the first `propose`, after the first token, which must not wait for it.
        self._lookup = self._look_up([*self._shelf.automata(), *([self._corpus] if self._corpus else [])])
        self._num_prompt = len(context.history)
        self._kept, self._since = context.history, []

    def propose(self, ask: Ask) -> Draft:
        self._kept = ask.context.history
        self._since.clear()
        least = max(LEAST_PROBABILITY, ask.least_probability)
        found = self._lookup.guess(ask.context.history, ask.budget, least)
        return NO_DRAFT if found is None else Draft(*found)

    def observe(self, verdict: Verdict, hidden: HiddenStates | None) -> None:
        self._since.append(verdict.token_ids)

    def end(self) -> None:
        if self._options.remember:
            output = np.concatenate([self._kept[self._num_prompt :], *self._since])
            self._shelf.add(output.tolist())
        self._lookup = self._look_up([])
        self._kept, self._since = EMPTY_IDS, []

    def _look_up(self, others: Sequence[SuffixAutomaton]) -> SuffixLookup:
        """A look-up in a text that begins now, and in `others`."""
        from guessahead._native import SuffixLookup

        return SuffixLookup(
            others=others,
            min_match=min(self._options.min_match, _INT32_MAX),
            branches=min(self._options.branches, _INT32_MAX),
            vocab_size=self._vocab_size,
            novelty=suffix_texts.NOVELTY,
        )

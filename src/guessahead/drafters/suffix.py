"""The suffix drafter: guess the continuation of the longest earlier match of the text's end.

The end of the text is looked up, at any length, in the prompt and the output so far, and optionally in
finished outputs of this process and in files. The continuations there and their counts give a tree of
guesses; a longer match gives higher probabilities and a longer draft. (Suffix decoding: Oliaro et al. 2024.)
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

# In no measured setting did a guess pay below this probability (by the drafter's own counts).
LEAST_PROBABILITY: Final = 0.04
_INT32_MAX: Final = 2**31 - 1  # more than any text has tokens


@dataclass(frozen=True, slots=True)
class SuffixOptions:
    """min_match: minimum length of a match, at least 1. branches: maximum number of children of a node, at
    least 1.

    remember: maximum number of tokens of finished outputs that this process keeps for look-up; 0 = none (the
        default: in a benchmark, a repeated request would be guessed from its own answer).
    corpus: a text file or a folder of text files for look-up.
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
    """The drafter: guesses are the continuations of the longest match of the text's end."""

    name: ClassVar[str] = "suffix"
    Options: ClassVar[type] = SuffixOptions
    prior: ClassVar[Prior | None] = STATED_PRIOR

    def __init__(self, options: SuffixOptions, resources: DrafterResources) -> None:
        self._options = options
        self._vocab_size = resources.engine.info.vocab_size
        self._shelf = suffix_texts.shelf(resources.engine, options.remember)
        self._corpus = suffix_texts.corpus(options.corpus, resources.tokenizer) if options.corpus else None
        self._lookup = self._look_up([])
        self._kept = EMPTY_IDS  # prompt and output at the last `propose`, and the tokens after it
        self._since: list[Int32] = []
        self._num_prompt = 0

    def begin(self, context: ChoiceContext) -> None:
        # The first `propose` indexes the prompt, after the first token, so that this token is not delayed.
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
        """A look-up in a new text, and in `others`."""
        from guessahead._native import SuffixLookup

        return SuffixLookup(
            others=others,
            min_match=min(self._options.min_match, _INT32_MAX),
            branches=min(self._options.branches, _INT32_MAX),
            vocab_size=self._vocab_size,
            novelty=suffix_texts.NOVELTY,
        )

"""Guess that the text goes on as it did after the longest passage that stood here before.

The end of the text is looked up in the prompt and the output so far, at any length, and, if asked for, in
finished outputs of this process and in files. What followed there, and how often, gives a tree of guesses;
the longer the match, the surer and the longer they are. (Suffix decoding: Oliaro et al. 2024.)
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from guessahead import tree
from guessahead.acceptance import TRUE_TO_ITS_WORD, Prior
from guessahead.drafters import suffix_texts
from guessahead.drafters.base import Drafter, Setup
from guessahead.errors import ParameterError
from guessahead.suffix_automaton import START, SuffixAutomaton
from guessahead.types import EMPTY_IDS, Choice, Draft, Int32, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

_NOVELTY: Final = suffix_texts.NOVELTY
# A guess below this chance (by the drafter's own counts) never paid in any measured setting.
LEAST_CHANCE: Final = 0.04


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


class _Reader:
    """Where the end of the text stands in another text."""

    def __init__(self, automaton: SuffixAutomaton) -> None:
        self.automaton = automaton
        self.state, self.length = START, 0

    def read(self, token_ids: Sequence[int]) -> None:
        for token in token_ids:
            self.state, self.length = self.automaton.step(self.state, self.length, token)


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
        self._own = SuffixAutomaton()
        self._readers: list[_Reader] = []
        self._kept = EMPTY_IDS  # prompt and output as of the last `propose`, and what came after it
        self._since: list[Int32] = []
        self._num_prompt = 0

    def begin(self, prompt_ids: Int32, choice: Choice) -> None:
        # The prompt is indexed by the first `propose`, after the first token, which must not wait for it.
        self._own = SuffixAutomaton()
        others = [*self._shelf.automata(), *([self._corpus] if self._corpus else [])]
        self._readers = [_Reader(automaton) for automaton in others]
        self._num_prompt = len(prompt_ids)
        self._kept, self._since = prompt_ids, []

    def propose(self, choice: Choice, budget: int) -> Draft:
        fresh = choice.history[self._own.num_tokens :].tolist()
        self._own.extend(fresh)
        for reader in self._readers:
            reader.read(fresh)
        self._kept, self._since = choice.history, []
        automaton, (state, length) = self._own, self._own.longest_match
        for reader in self._readers:
            if reader.length > length + 1:  # what stands in this very text is closer to it
                automaton, state, length = reader.automaton, reader.state, reader.length
        if length < self._options.min_match:
            return Draft()
        return self._grow(automaton, state, length, budget)

    def observe(self, verdict: Verdict) -> None:
        self._since.append(verdict.token_ids)

    def end(self) -> None:
        if self._options.remember:
            output = np.concatenate([self._kept[self._num_prompt :], *self._since])
            self._shelf.add(output.tolist())
        self._own, self._readers = SuffixAutomaton(), []
        self._kept, self._since = EMPTY_IDS, []

    def _grow(self, automaton: SuffixAutomaton, state: int, length: int, budget: int) -> Draft:
        """The likeliest guesses, a tree where several are likely: best first."""
        tokens: list[int] = []
        parents: list[int] = []
        confidence: list[float] = []
        # (minus the path's chance, age, parent, token, state, length of the match, chance of this step)
        waiting: list[tuple[float, int, int, int, int, int, float]] = []
        age, node, reach, branches = 0, tree.ROOT, 1.0, self._options.branches
        least = max(LEAST_CHANCE, self.least_chance)
        while len(tokens) < budget:
            length, num_ways, total, ways = automaton.ways(state, length, branches)
            weight = total + num_ways * (_NOVELTY[length] if length < len(_NOVELTY) else _NOVELTY[-1])
            for token, count, to in ways:
                chance = count / weight
                if reach * chance >= least and token < self._vocab_size:
                    age += 1
                    heappush(waiting, (-reach * chance, age, node, token, to, length + 1, chance))
            if not waiting:
                break
            below, _, parent, token, state, length, chance = heappop(waiting)
            node, reach = len(tokens), -below
            tokens.append(token)
            parents.append(parent)
            confidence.append(chance)
        chain = parents == list(range(-1, len(tokens) - 1))
        return Draft(
            np.array(tokens, np.int32),
            None if chain else np.array(parents, np.int32),
            np.array(confidence, np.float32),
        )

"""A world in which all that chance may do can be enumerated: three tokens, two models, virtual time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from guessahead.controller.pass_costs import LearnedPassCosts
from guessahead.controller.pass_curve import PassCurve
from guessahead.core.rejection import Use
from guessahead.drafters.base import Drafter, DrafterResources
from guessahead.drafters.draft_model import DraftModel
from guessahead.drafters.model_base import DraftModelOptions
from guessahead.drafters.portfolio import Portfolio, PortfolioOptions
from guessahead.drafters.prompt_lookup import PromptLookup, PromptLookupOptions
from guessahead.drafters.suffix import Suffix, SuffixOptions
from guessahead.engines.replay import VirtualClock
from guessahead.runners.solo import SpeculativeDecoder
from guessahead.types import Ask, Draft, Gamma
from tests.support.enumeration import ChanceEngine, Law, Outcomes, enumerated, plain_law
from tests.support.fake_text import letters
from tests.support.fakes import request

VOCAB = 3
MAX_ROWS = 8
PROMPT = (0, 1, 0, 1, 0)
SETTINGS: dict[str, dict[str, Any]] = {
    "temperature": {"temperature": 1.5},
    "top-k": {"temperature": 2.0, "top_k": 2},
    "top-p": {"temperature": 3.0, "top_p": 0.85},
    "min-p": {"temperature": 1.5, "min_p": 0.2},
    "all": {
        "temperature": 2.5,
        "top_k": 2,
        "top_p": 0.95,
        "repetition_penalty": 1.2,
        "frequency_penalty": 0.5,
        "logit_bias": {2: 0.5},
    },
    "eos": {"temperature": 1.5, "min_tokens": 2},
}
SAME = 1e-12
DIFFERENT = 1e-3


class World:
    """A target, a draft model that resembles it, and one way to generate with them.

    drafter: makes one from a DrafterResources. c: time of a draft pass over that of a one-row pass.
    lengths: how much was guessed, over all steps of all runs. num_short: in how many of them it was less than
        there was room for. guessed_by: who made how many guesses, where it was not the drafter itself.
    """

    def __init__(
        self,
        drafter: Callable[[DrafterResources], Drafter],
        settings: str,
        gamma: Gamma,
        max_tokens: int,
        c: float = 0.02,
        second_vocab: int = VOCAB,
    ) -> None:
        self.outcomes = Outcomes()
        self.target = ChanceEngine(VOCAB, max_rows=MAX_ROWS, seed=1)
        self.second = ChanceEngine(second_vocab, seed=2, like=self.target)
        self.second.seconds = c
        self.second.info = replace(self.second.info, bytes_per_pass=int(c * self.target.info.bytes_per_pass))
        self.eos_ids = (2,) if settings == "eos" else ()
        self._drafter = drafter
        self._asked = request(
            PROMPT,
            max_tokens,
            gamma,  # type: ignore[arg-type]
            acceptance="rejection",
            trace=True,
            **SETTINGS[settings],
        )
        self.lengths: Counter[int] = Counter()
        self.num_short = 0
        self.guessed_by: set[str] = set()

    def generate(self) -> tuple[int, ...]:
        """One run, with fresh state, on the outcomes that are due."""
        self.target.outcomes = self.outcomes
        self.target.clock = self.second.clock = clock = VirtualClock()
        decoder = SpeculativeDecoder(
            self.target,
            self._drafter(DrafterResources(self.target, self.second)),
            letters(VOCAB, self.eos_ids),  # type: ignore[arg-type]
            costs=_known_costs(),
            clock=clock,
            draws=lambda choice: self.outcomes,
        )
        generation = decoder.generate(self._asked)
        assert generation.trace is not None
        left = self._asked.max_tokens - 1
        for step in generation.trace["steps"][1:]:
            length = len(step["draft"]["token_ids"])
            self.lengths[length] += 1
            self.guessed_by.update(step["draft"]["origins"] or ())
            self.num_short += length < left - 1
            left -= len(step["token_ids"])
        return generation.token_ids

    def laws(self) -> tuple[Law, Law]:
        """What comes out, and what must."""
        ours = enumerated(self.outcomes, self.generate)
        asked = self._asked
        plain = plain_law(self.target, PROMPT, asked.params, asked.max_tokens, self.eos_ids)
        assert sum(plain.values()) == pytest.approx(1.0, abs=SAME)
        return ours, plain


def _known_costs() -> LearnedPassCosts:
    return LearnedPassCosts(MAX_ROWS, PassCurve({m: 0.95 + 0.05 * m for m in range(1, MAX_ROWS + 1)}))


def model(setup: DrafterResources) -> Drafter:
    return DraftModel(DraftModelOptions(), setup)


def portfolio(setup: DrafterResources) -> Drafter:
    return Portfolio(PortfolioOptions(), setup)


def suffix(setup: DrafterResources) -> Drafter:
    return Suffix(SuffixOptions(), setup)


def prompt_lookup(setup: DrafterResources) -> Drafter:
    return PromptLookup(PromptLookupOptions(min_ngram=1), setup)


# --- twins that break the law ---


class Picky(Drafter):
    """Mixed in: drops a guess that was drawn although it was unlikely, and all behind it."""

    def propose(self, ask: Ask) -> Draft:
        draft: Draft = super().propose(ask)
        assert draft.distributions is not None
        guesses = zip(draft.token_ids.tolist(), draft.distributions, strict=True)
        num = next((i for i, (token, q) in enumerate(guesses) if q[token] < 0.4), len(draft))
        if num == 0:
            return Draft()
        sure = None if draft.probabilities is None else draft.probabilities[:num]
        return Draft(draft.token_ids[:num], None, sure, None, draft.distributions[:num])


class SharedNoise(Outcomes):
    """Tests a guess with the number that drew it."""

    def passes(self, use: Use, chance: float, start: int, depth: int) -> bool:
        return super().passes(Use.GUESS, chance, start, depth)

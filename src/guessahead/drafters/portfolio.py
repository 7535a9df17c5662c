"""Several drafters at once: what the text repeats, and a second model where there is one.

The controller asks the members by itself: the free ones every step, the model where its guesses are worth
more than what the others found, and keeps the guesses that pay, whoever made them. So each request finds out
which drafter serves it. At a fixed gamma there is nothing to weigh with, and the surest draft comes first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Final

from guessahead.core import tree
from guessahead.drafters.base import Drafter, DrafterResources
from guessahead.drafters.draft_model import DraftModel
from guessahead.drafters.head import Head, HeadOptions
from guessahead.drafters.model_base import DraftModelOptions
from guessahead.drafters.suffix import Suffix, SuffixOptions
from guessahead.types import NO_DRAFT, Ask, ChoiceContext, Draft, HiddenStates, Verdict

# At a fixed gamma a model is asked unless the text's own repetition is this sure of its first guess: then the
# model would most likely say the same, and take its time for it.
SURE: Final = 0.8


@dataclass(frozen=True, slots=True)
class PortfolioOptions:
    """remember, corpus: as for `suffix`. head: whether to use the model's draft head, if it has one."""

    remember: int = 0
    corpus: str = ""
    head: bool = True

    def __post_init__(self) -> None:
        self.suffix()  # checks the ranges

    def suffix(self) -> SuffixOptions:
        """The options of the member."""
        return SuffixOptions(remember=self.remember, corpus=self.corpus)


class Portfolio(Drafter):
    """`suffix`; `head` if the model has one; `draft-model` if there is a second model: in one tree."""

    name: ClassVar[str] = "portfolio"
    Options: ClassVar[type] = PortfolioOptions
    takes_draft_engine: ClassVar[bool] = True

    def __init__(self, options: PortfolioOptions, resources: DrafterResources) -> None:
        members: list[Drafter] = [Suffix(options.suffix(), resources)]
        if options.head and resources.head is not None and resources.head("") is not None:
            members.append(Head(HeadOptions(), resources))
        if resources.draft_engine is not None:
            members.append(DraftModel.make(DraftModelOptions(), resources))
        self._members = tuple(members)
        self.note = "; ".join(f"{member.name}: {member.note}" for member in members if member.note)
        self.needs_hidden = tuple(sorted({layer for member in members for layer in member.needs_hidden}))

    @property
    def members(self) -> tuple[Drafter, ...]:
        return self._members

    def begin(self, context: ChoiceContext) -> None:
        for member in self._members:
            member.begin(context)

    def propose(self, ask: Ask) -> Draft:
        drafts: list[tuple[Draft, str]] = []
        for member in self._members:
            if member.pays_per_guess and any(_first_probability(draft) > SURE for draft, _ in drafts):
                continue
            draft = member.propose(ask)
            if draft.distributions is not None:
                return replace(draft, origins=(member.name,) * len(draft))  # sampled: nothing may displace it
            if len(draft):
                drafts.append((draft, member.name))
        if not drafts:
            return NO_DRAFT
        drafts.sort(key=lambda pair: -_first_probability(pair[0]))
        return tree.merge([draft for draft, _ in drafts], [name for _, name in drafts], ask.budget)

    def observe(self, verdict: Verdict, hidden: HiddenStates | None) -> None:
        for member in self._members:
            member.observe(verdict, hidden if member.needs_hidden else None)

    def end(self) -> None:
        for member in self._members:
            member.end()


def _first_probability(draft: Draft) -> float:
    """Of the first guess, as stated."""
    return float(draft.probabilities[0]) if draft.probabilities is not None and len(draft) else 0.0

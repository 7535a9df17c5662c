"""The default drafter: several drafters in one tree.

The controller calls the members itself: the free ones in every step, those with a model when their expected
gain exceeds that of the guesses found so far; it keeps the guesses that pay. So the best drafter is found for
each request. With a fixed gamma there is no controller, and the draft with the highest probability comes
first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Final

from guessahead.core import tree
from guessahead.drafters.base import Drafter, DrafterResources, NoOptions
from guessahead.drafters.draft_model import DraftModel
from guessahead.drafters.grammar import GrammarDrafter
from guessahead.drafters.head import Head, HeadOptions
from guessahead.drafters.model_base import DraftModelOptions
from guessahead.drafters.suffix import Suffix, SuffixOptions
from guessahead.types import NO_DRAFT, Ask, ChoiceContext, Draft, HiddenStates, Verdict

# With a fixed gamma, members with a model are skipped if an earlier member's first guess has a probability
# above this: the model would most likely guess the same token, at the cost of its pass.
ENOUGH: Final = 0.8


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
    """`suffix`; `grammar`, `head` and `draft-model` with a grammar, a head, a second model: in one tree."""

    name: ClassVar[str] = "portfolio"
    Options: ClassVar[type] = PortfolioOptions
    takes_draft_engine: ClassVar[bool] = True

    def __init__(self, options: PortfolioOptions, resources: DrafterResources) -> None:
        members: list[Drafter] = [Suffix(options.suffix(), resources)]
        if resources.constrained:
            members.insert(0, GrammarDrafter(NoOptions(), resources))
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
            if member.pays_per_guess and any(_first_probability(draft) > ENOUGH for draft, _ in drafts):
                continue
            draft = member.propose(ask)
            if draft.distributions is not None:
                return replace(draft, origins=(member.name,) * len(draft))  # sampled: must be kept whole
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
    """The stated probability of the first guess."""
    return float(draft.probabilities[0]) if draft.probabilities is not None and len(draft) else 0.0

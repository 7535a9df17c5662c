"""Several drafters at once: what the text repeats, and a second model where there is one.

The controller asks the members by itself: the free ones every step, the model where its guesses are worth
more than what the others found, and keeps the guesses that pay, whoever made them. So each request finds out
which drafter serves it. At a fixed gamma there is nothing to weigh with, and the surest draft comes first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from guessahead.core import tree
from guessahead.drafters.base import Drafter, Setup
from guessahead.drafters.draft_model import DraftModel, DraftModelOptions
from guessahead.drafters.head import Head, HeadOptions
from guessahead.drafters.suffix import Suffix, SuffixOptions
from guessahead.types import Choice, Draft, Float32, Int32, Verdict

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

    def __init__(self, options: PortfolioOptions, setup: Setup) -> None:
        members: list[Drafter] = [Suffix(options.suffix(), setup)]
        if options.head and setup.head is not None and setup.head("") is not None:
            members.append(Head(HeadOptions(), setup))
        if setup.draft_engine is not None:
            members.append(DraftModel.make(DraftModelOptions(), setup))
        self._members = tuple(members)
        self.needs_hidden = tuple(sorted({layer for member in members for layer in member.needs_hidden}))

    @property
    def members(self) -> tuple[Drafter, ...]:
        return self._members

    @property
    def note(self) -> str:  # type: ignore[override]
        return "; ".join(f"{member.name}: {member.note}" for member in self._members if member.note)

    def begin(self, prompt_ids: Int32, choice: Choice) -> None:
        for member in self._members:
            member.begin(prompt_ids, choice)

    def propose(self, choice: Choice, budget: int) -> Draft:
        drafts: list[tuple[Draft, str]] = []
        for member in self._members:
            if member.pays_per_guess and any(_sureness(draft) > SURE for draft, _ in drafts):
                continue
            draft = member.propose(choice, budget)
            if draft.dists is not None:
                return replace(draft, origins=(member.name,) * len(draft))  # drawn: nothing may displace it
            if len(draft):
                drafts.append((draft, member.name))
        drafts.sort(key=lambda pair: -_sureness(pair[0]))
        if not drafts:
            return Draft()
        return tree.merge([draft for draft, _ in drafts], [name for _, name in drafts], budget)

    def read(self, first: int, hidden: Mapping[int, Float32]) -> None:
        for member in self._members:
            if member.needs_hidden:
                member.read(first, hidden)

    def observe(self, verdict: Verdict) -> None:
        for member in self._members:
            member.observe(verdict)

    def end(self) -> None:
        for member in self._members:
            member.end()


def _sureness(draft: Draft) -> float:
    """Of the first guess."""
    return float(draft.confidence[0]) if draft.confidence is not None and len(draft) else 0.0

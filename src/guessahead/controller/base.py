"""Deciding how much to guess: the simplest policy, a fixed number of guesses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from guessahead.errors import StateError
from guessahead.types import NO_DRAFT, Ask, ChoiceContext, Draft, Verdict

if TYPE_CHECKING:
    from guessahead.drafters.base import Drafter
    from guessahead.protocols import Proposer
    from guessahead.types import Draws


class FixedGamma:
    """The policy that always asks its drafter for the same number of guesses."""

    def __init__(self, drafter: Drafter, gamma: int, draws: Draws | None = None) -> None:
        """draws: passed on with every question."""
        self._drafter, self._gamma, self._draws = drafter, gamma, draws
        self._ask: Ask | None = None
        self._draft = NO_DRAFT

    def begin(self, context: ChoiceContext, budget: int) -> None:
        budget = min(budget, self._gamma)
        self._ask = Ask(context, budget, draws=self._draws) if budget > 0 else None
        self._draft = NO_DRAFT

    def ask(self) -> tuple[Proposer, Ask] | None:
        return None if self._ask is None else (self._drafter, self._ask)

    def answer(self, draft: Draft, seconds: float) -> None:
        if self._ask is None:
            raise StateError("nothing was asked")
        name, budget = self._drafter.name, self._ask.budget
        if len(draft) > budget:
            raise StateError(f"drafter {name!r} proposed {len(draft)} tokens; {budget} were allowed")
        self._draft, self._ask = draft, None

    def draft(self) -> Draft:
        return self._draft

    def observe(
        self, verdict: Verdict, num_rows: int, context_length: int, pass_seconds: float, seconds: float
    ) -> None:
        """Nothing is learned."""

    def why(self) -> dict[str, Any] | None:
        return None

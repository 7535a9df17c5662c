"""Who decides how much to guess: what the loop asks of it, and the simplest answer, a fixed gamma."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from guessahead.errors import StateError
from guessahead.types import Draft, Verdict

if TYPE_CHECKING:
    from guessahead.drafters.base import Drafter
    from guessahead.types import Choice

NOTHING: Final = Draft()


class Policy(Protocol):
    """What the loop asks of whoever decides how much to guess."""

    def draft(self, choice: Choice, budget: int) -> Draft:
        """The guesses of this step, at most `budget`."""

    def observe(
        self, verdict: Verdict, num_rows: int, context: int, pass_seconds: float, seconds: float
    ) -> None:
        """What became of them.

        num_rows: of the pass, behind `context` cached tokens. seconds: of the whole step.
        """

    def why(self) -> dict[str, Any] | None:
        """The reasons of the last `draft`, ready for JSON, if they were asked for."""


class FixedGamma:
    """Always as much as allowed."""

    def __init__(self, drafter: Drafter, gamma: int) -> None:
        self._drafter, self._gamma = drafter, gamma

    def draft(self, choice: Choice, budget: int) -> Draft:
        budget = min(budget, self._gamma)
        if budget <= 0:
            return NOTHING
        draft = self._drafter.propose(choice, budget)
        if len(draft) > budget:
            raise StateError(
                f"drafter {self._drafter.name!r} proposed {len(draft)} tokens; {budget} were allowed"
            )
        return draft

    def observe(
        self, verdict: Verdict, num_rows: int, context: int, pass_seconds: float, seconds: float
    ) -> None:
        """Nothing is learned."""

    def why(self) -> dict[str, Any] | None:
        return None

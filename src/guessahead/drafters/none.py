"""No guesses: every step emits the one token that the target chooses. This is plain decoding."""

from __future__ import annotations

from typing import ClassVar

from guessahead.drafters.base import Drafter
from guessahead.types import Choice, Draft


class NoDrafter(Drafter):
    """Proposes nothing."""

    name: ClassVar[str] = "none"

    @property
    def members(self) -> tuple[Drafter, ...]:
        return ()  # nobody to ask

    def propose(self, choice: Choice, budget: int) -> Draft:
        return Draft()

"""The drafter without guesses: every step emits one token, which is plain decoding."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from guessahead.drafters.base import Drafter
from guessahead.types import NO_DRAFT

if TYPE_CHECKING:
    from guessahead.types import Ask, Draft


class NoDrafter(Drafter):
    """Proposes nothing."""

    name: ClassVar[str] = "none"

    @property
    def members(self) -> tuple[Drafter, ...]:
        return ()

    def propose(self, ask: Ask) -> Draft:
        return NO_DRAFT

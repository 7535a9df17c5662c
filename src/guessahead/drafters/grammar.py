"""Guess what the grammar forces: names of fields, quotes, brackets, the rest of a choice that has begun.

Such a text costs nothing to guess. It can be cut into tokens in several ways; the guess is the tokenizer's,
and what the model chooses decides, as for every guess.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from guessahead.drafters.base import STATED_PRIOR, Drafter, Prior
from guessahead.types import NO_DRAFT, Draft

if TYPE_CHECKING:
    from guessahead.drafters.base import DrafterResources
    from guessahead.types import Ask


class GrammarDrafter(Drafter):
    """The tokens that the request's grammar forces; nothing without a grammar."""

    name: ClassVar[str] = "grammar"
    prior: ClassVar[Prior | None] = STATED_PRIOR

    def __init__(self, options: Any, resources: DrafterResources) -> None:
        pass

    def propose(self, ask: Ask) -> Draft:
        constraint = ask.context.constraint
        forced = constraint.forced(ask.budget) if constraint is not None else []
        if not forced:
            return NO_DRAFT
        return Draft(
            np.array([token_id for token_id, _ in forced], np.int32),
            probabilities=np.array([probability for _, probability in forced], np.float32),
        )

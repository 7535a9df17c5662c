"""The drafter with a copy of the target's own weights at lower precision as its draft model.

For a model without a smaller relative. The copy has its own cache, agrees with the target nearly always, and
is faster in proportion to its bytes. It is made once and kept in the user cache.
"""

from __future__ import annotations

from typing import ClassVar

from guessahead.drafters.base import DrafterResources
from guessahead.drafters.draft_model import DraftModel
from guessahead.drafters.model_base import DraftingOptions
from guessahead.errors import ParameterError


class SelfDraft(DraftModel):
    """The drafter: the target at another precision as its draft model."""

    Options: ClassVar[type] = DraftingOptions
    precision: ClassVar[str]
    note = ""
    needs_draft_engine: ClassVar[bool] = False
    takes_draft_engine: ClassVar[bool] = False

    def __init__(self, options: DraftingOptions, resources: DrafterResources) -> None:
        if resources.at_precision is None:
            raise ParameterError(f"drafter {self.name!r} needs a model that was loaded from a file")
        self._use(options, resources, resources.at_precision(self.precision))


class SelfQ4(SelfDraft):
    """The target at 4 bits a weight (Q4_1) as its own draft model."""

    name: ClassVar[str] = "self-q4"
    precision: ClassVar[str] = "Q4_1"


class SelfQ8(SelfDraft):
    """The target at 8 bits a weight (Q8_0) as its own draft model."""

    name: ClassVar[str] = "self-q8"
    precision: ClassVar[str] = "Q8_0"

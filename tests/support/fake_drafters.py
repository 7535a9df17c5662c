"""Drafters with known mistakes: they know what plain decoding yields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from guessahead.core import tree
from guessahead.drafters.base import Drafter
from guessahead.drafters.draft_model import DraftModel
from guessahead.types import Ask, ChoiceContext, Draft, HiddenStates, Verdict


class OracleDrafter(Drafter):
    """Knows the plain output; guesses `num_right` tokens right, then wrong ones, up to the budget.

    text: prompt + plain output. num_right: one number per step, repeated. Beyond the text it guesses 0.
    """

    name: ClassVar[str] = "oracle"

    def __init__(self, text: Sequence[int], num_right: Sequence[int], vocab_size: int) -> None:
        self._text = list(text)
        self._num_right = list(num_right)
        self._vocab_size = vocab_size
        self.budgets: list[int] = []
        self.verdicts: list[Verdict] = []
        self.num_begun = self.num_ended = 0

    def begin(self, context: ChoiceContext) -> None:
        self.num_begun += 1

    def propose(self, ask: Ask) -> Draft:
        num_right = self._num_right[len(self.budgets) % len(self._num_right)]
        self.budgets.append(ask.budget)
        position = len(ask.context.history)
        history = ask.context.history.tolist()
        assert history == self._text[:position], "the history is not what plain decoding made"
        right = [self._right(position + depth) for depth in range(ask.budget)]
        return self._draft(right, num_right, ask.budget)

    def observe(self, verdict: Verdict, hidden: HiddenStates | None) -> None:
        self.verdicts.append(verdict)

    def end(self) -> None:
        self.num_ended += 1

    def _draft(self, right: list[int], num_right: int, budget: int) -> Draft:
        guesses = [token if i < num_right else self._wrong(token) for i, token in enumerate(right)]
        return Draft(np.array(guesses, np.int32))

    def _right(self, position: int) -> int:
        return self._text[position] if position < len(self._text) else 0

    def _wrong(self, token: int, by: int = 1) -> int:
        return (token + by) % self._vocab_size


class TreeOracleDrafter(OracleDrafter):
    """The same as a tree: beside every right guess stands a wrong one, listed before it, with a child."""

    name: ClassVar[str] = "tree-oracle"

    def _draft(self, right: list[int], num_right: int, budget: int) -> Draft:
        nodes: list[tuple[int, int]] = []  # (parent, token)
        parent = tree.ROOT
        for depth, token in enumerate(right):
            good = token if depth < num_right else self._wrong(token, 2)
            wrong = len(nodes)
            nodes += [(parent, self._wrong(token)), (wrong, token), (parent, good)]
            parent = len(nodes) - 1
        nodes = nodes[:budget]
        return Draft(
            token_ids=np.array([token for _, token in nodes], np.int32),
            parents=np.array([parent for parent, _ in nodes], np.int32),
            origins=tuple("wrong" if i % 3 < 2 else "right" for i in range(len(nodes))),
        )


class HostileDrafter(OracleDrafter):
    """Always wrong."""

    name: ClassVar[str] = "hostile"

    def __init__(self, text: Sequence[int], vocab_size: int) -> None:
        super().__init__(text, [0], vocab_size)


class TreeHostileDrafter(TreeOracleDrafter):
    """Always wrong, in several branches."""

    name: ClassVar[str] = "tree-hostile"

    def __init__(self, text: Sequence[int], vocab_size: int) -> None:
        super().__init__(text, [0], vocab_size)


class ConstantDrafter(Drafter):
    """Always guesses the same token, as often as it may."""

    name: ClassVar[str] = "constant"

    def __init__(self, token_id: int) -> None:
        self._token_id = token_id

    def propose(self, ask: Ask) -> Draft:
        return Draft(np.full(ask.budget, self._token_id, np.int32))


class SlippingDraftModel(DraftModel):
    """Shows a wrong token in place of its second guess, every third time."""

    num_proposed = num_slips = 0

    def propose(self, ask: Ask) -> Draft:
        draft = super().propose(ask)
        self.num_proposed += 1
        if self.num_proposed % 3 == 0 and len(draft) > 1:
            draft.token_ids[1] ^= 1
            self.num_slips += 1
        return draft

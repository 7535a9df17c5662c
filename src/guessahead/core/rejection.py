"""The classic rule: guesses drawn by chance, and kept by chance, so that only the law of the text is plain's.

A guess x that was drawn from q is kept with probability min(1, p(x) / q(x)), p being the distribution of the
target after all filters. The first one that is not kept is replaced by a draw from max(p - q, 0), normalised,
and the guesses behind it are dropped. What comes out is distributed as p, whatever q is, and a guess is kept
with probability sum of min(p, q), the most that any rule reaches. (Leviathan, Kalman, Matias 2023, algorithm
1 and theorem 3.5; Chen et al. 2023, algorithm 2.)

It holds only if a guess, once drawn, is tested: a drafter or controller that drops one because of what it is
shifts the law. So a drawn draft is a chain that is verified whole, and how far to draw is decided before each
draw. A guess that was not drawn has q = 1: it is kept with probability p(x), else replaced by a draw from the
rest of p. Drawing from p and looking whether the guess came out does both at once, and that is what `choose`
does; so drafts without `dists` are left to it, trees included.

Greedy settings leave nothing to chance, and this file to rest.
"""

from __future__ import annotations

from dataclasses import replace
from enum import IntEnum
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from guessahead.core import sampling
from guessahead.errors import ParameterError, StateError

if TYPE_CHECKING:
    from guessahead.drafters.base import Drafter
    from guessahead.engines.base import PassOutput
    from guessahead.types import Choice, Draft, Float64


IDENTICAL: Final = "identical"
REJECTION: Final = "rejection"
ACCEPTANCES: Final = (IDENTICAL, REJECTION)
"""The ways of acceptance: the text of plain decoding, or only its law."""


class Use(IntEnum):
    """What a random number is for. Each has numbers of its own, and `choose` has others."""

    GUESS = 1
    TEST = 2
    REPLACEMENT = 3


class Draws(Protocol):
    """Draws lots. Each (use, start, depth) has one number, independent of all others.

    start: tokens committed when the step began; depth: the guess of the draft, from 0. No two steps begin at
    the same length, so a guess that was dropped leaves no trace in a later one.
    """

    def pick(self, use: Use, weights: Float64, start: int, depth: int) -> int:
        """An index, with probability weights[index] / sum of weights."""

    def passes(self, use: Use, chance: float, start: int, depth: int) -> bool:
        """True with probability `chance` (above 1: always)."""


class HashDraws:
    """The draws of one generation: a function of its seed, as the noise of `choose` is."""

    def __init__(self, choice: Choice) -> None:
        self._seed, self._stream = sampling.resolved_seed(choice), choice.stream

    def pick(self, use: Use, weights: Float64, start: int, depth: int) -> int:
        reached = np.cumsum(weights)
        index = int(np.searchsorted(reached, self._uniform(use, start, depth) * reached[-1], side="right"))
        # A number that rounds to the whole sum belongs to the last index that has any weight.
        return min(index, int(np.searchsorted(reached, reached[-1])))

    def passes(self, use: Use, chance: float, start: int, depth: int) -> bool:
        return self._uniform(use, start, depth) < chance

    def _uniform(self, use: Use, start: int, depth: int) -> float:
        stream = self._stream + (use << 32)  # those of `choose` are below 2**32
        return float(sampling.uniforms(self._seed, stream, start, depth)[0])


def equip(drafter: Drafter, draws: Draws | None) -> None:
    """Tell a drafter, and those it consists of, whether its guesses are to be drawn. Errors: as `check`."""
    if draws is not None:
        check(drafter)
    for each in (drafter, *drafter.members):
        each.draws = draws


def check(drafter: Drafter) -> None:
    """Raises ParameterError for a model that guesses and cannot say from which distribution."""
    for each in (drafter, *drafter.members):
        if each.pays_per_guess and not each.gives_dists:
            way = f" ({each.note})" if each.note else ""
            raise ParameterError(
                f"drafter {each.name!r}{way} does not draw its guesses from a known distribution, which "
                "acceptance 'rejection' needs: take acceptance 'identical' or another drafter"
            )


def is_drawn(drafter: Drafter) -> bool:
    """Whether guesses are drawn, so that the text is not plain decoding's; others are left to `choose`."""
    return any(each.gives_dists for each in (drafter, *drafter.members))


def settle(draft: Draft, choice: Choice, output: PassOutput, last: int, draws: Draws | None) -> PassOutput:
    """The output with the target's choices along a drawn draft made by the classic rule; else as it is.

    last: row of the last committed token; the draft's rows follow it, and all have logits.
    """
    if draft.dists is None:
        return output
    logits, token_ids = output.logits, draft.token_ids
    if draws is None or draft.parents is not None or len(draft.dists) != len(draft) or logits is None:
        raise StateError("a drawn draft is a chain with one distribution a guess, made when asked for")
    chosen = np.full_like(output.chosen, -1)
    start = len(choice.history)
    for depth, q in enumerate(draft.dists):
        p = sampling.probabilities(logits[last + depth], choice, token_ids[:depth])
        chosen[last + depth] = _judge(int(token_ids[depth]), p, q, draws, (start, depth))
        if chosen[last + depth] != token_ids[depth]:
            return replace(output, chosen=chosen)
    chosen[last + len(draft)] = output.chosen[last + len(draft)]
    return replace(output, chosen=chosen)


def _judge(guess: int, p: Float64, q: Float64, draws: Draws, place: tuple[int, int]) -> int:
    """The guess if it is kept, else its replacement. p: float64[vocab], q: the same or shorter."""
    if draws.passes(Use.TEST, p[guess] / q[guess], *place):
        return guess
    rest = p.copy()
    rest[: len(q)] -= q
    rest = np.maximum(rest, 0.0)
    # Where p and q are the same but for rounding, nothing may be left, nor does it matter what is taken.
    return draws.pick(Use.REPLACEMENT, rest if rest.any() else p, *place)

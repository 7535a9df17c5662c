"""Whom to ask for guesses in a step, and how many: each drafter while its answer is worth its time."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from guessahead.controller.members import SMALL_LAG, Guesses, Member
from guessahead.controller.stopping import best_chain, stop_rule
from guessahead.core import tree
from guessahead.types import Ask

if TYPE_CHECKING:
    from guessahead.controller.pass_costs import Curve
    from guessahead.controller.running import Pace, Trials
    from guessahead.drafters.base import Drafter
    from guessahead.types import ChoiceContext, Draft, Draws, StopRule

Result = TypeVar("Result")
Asking: TypeAlias = "Generator[tuple[Drafter, Ask], tuple[Draft, float], Result]"

# A drafter without a known prior is trusted with one guess at first, and two more for each that was right.
TRUSTED_HITS: Final = 6
# A second model that lags behind must read before it guesses. The reading is set against the gain of this
# many drafts to come, or of one for so many tokens still wanted, as texts end before their limit.
CATCH_UP_DRAFTS: Final = 24
TOKENS_PER_DRAFT: Final = 5
# Where one drafter that pays for every guess has answered, another must promise so many times what is there:
# most of what it would say is known by then, and an estimate that promises a little more is mostly luck.
RIVAL_SHARE: Final = 2.0
# The part of a one-row pass that one more row takes while reading a long text, before it is measured.
READ_SHARE: Final = 0.2


@dataclass(slots=True)
class Step:
    """What is known when a step is decided.

    limit: most guesses. price: tokens that a second is worth. curve: what passes cost here.
    least_probability, draws: see `Ask`. num_left: tokens still wanted. found: the guesses so far;
    value: tokens that the best of them gain; promised: the same by the estimates alone.
    served: a drafter that pays for every guess was asked because it pays.
    asked_seconds: what the drafters took. promises: of those that pay for every guess and were asked: tokens
        that they were to bring, and that the others had found before.
    """

    context: ChoiceContext
    limit: int
    price: float
    curve: Curve
    num_left: int
    found: Guesses
    least_probability: float = 0.0
    draws: Draws | None = None
    value: float = 0.0
    promised: float = 0.0
    served: bool = False
    asked_seconds: float = 0.0
    promises: list[tuple[Member, float, float]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Offer:
    """What asking a drafter that pays per guess is expected to bring.

    worth: tokens gained, less the time it takes. each, behind: seconds of one guess, and of catching up.
    lag: committed tokens it has not read.
    """

    member: Member
    worth: float
    each: float
    behind: float
    lag: int


def trust(member: Member, limit: int) -> int:
    """How many guesses of a drafter may be tried."""
    num_hits = member.track.num_hits
    if member.drafter.prior is not None:
        return limit
    return limit if num_hits >= TRUSTED_HITS else min(limit, 1 + 2 * num_hits)


class Asker:
    """Asks the drafters of one generation."""

    def __init__(self, pace: Pace, trials: Trials) -> None:
        self._pace, self._trials = pace, trials

    def ask_free(self, member: Member, step: Step) -> Asking[None]:
        """A drafter whose question costs the same however much it guesses."""
        pays = member.gain > step.price * member.ask_seconds
        if pays:
            member.reason = "asked"
            member.wake()
        else:
            if member.resting() or not self._trials.lend(member.ask_seconds):
                member.reason = "not asked: it has not paid, and the last trial is too recent"
                return
            member.reason = "asked on trial"
            member.decline()
        asked_before = step.asked_seconds
        yield from self._ask(member, step, step.limit, 0, 0.0)
        if pays and member.track.num_hits == 0:  # nothing but its first credit says so
            self._trials.owe(step.asked_seconds - asked_before)

    def offer(self, member: Member, step: Step) -> Offer:
        """What a drafter that pays for every guess would bring, were it the only one."""
        curve, lag = step.curve, member.drafter.lag(step.context)
        each = member.guess_seconds
        if each is None:
            each = member.drafter.relative_cost * curve.seconds
        behind = max(lag - 1, 0) * (member.read_seconds or each * self._read_share(curve.seconds))
        gain = best_chain(member.track, step.limit, each, step.price, curve)
        drafts = max(1.0, min(CATCH_UP_DRAFTS, step.num_left / TOKENS_PER_DRAFT))
        behind_share = behind / (drafts if lag > SMALL_LAG else 1.0)
        worth = gain - step.price * (behind_share + self._pace.handling_seconds)
        return Offer(member, worth + member.surplus.mean, each, behind, lag)

    def ask_paid(self, offer: Offer, step: Step) -> Asking[bool]:
        """Take an offer, if it is worth more than what is there already. Says whether guesses came."""
        member, curve = offer.member, step.curve
        cap = trust(member, step.limit)
        member.probing = offer.worth <= step.value * (RIVAL_SHARE if step.served else 1.0)
        if member.probing:
            cost = offer.each + offer.behind + curve.seconds * (curve.v[2] - 1.0)
            cost += self._pace.handling_seconds
            if offer.worth > 0.0 or not self._trials.lend(cost):
                member.reason = "not asked: less to gain than without it"
                if offer.worth <= 0.0:
                    member.decline()
                return False
            self._trials.pass_seconds = curve.seconds
            cap = 1
        else:
            step.served = True
            member.wake()
        member.reason = "asked on trial" if member.probing else "asked"
        if offer.lag <= SMALL_LAG:
            promised = offer.worth - member.surplus.mean
            if member.probing:
                promised = member.track.mean - step.price * cost
            step.promises.append((member, promised, step.value))
        stop = stop_rule(member.track, cap, offer.each, step.price, curve)
        return (yield from self._ask(member, step, cap, offer.lag, offer.each, stop))

    def _ask(
        self,
        member: Member,
        step: Step,
        most: int,
        lag: int,
        expected: float,
        stop: StopRule | None = None,
    ) -> Asking[bool]:
        ask = Ask(step.context, most, stop, step.least_probability, step.draws)
        draft, seconds = yield member.drafter, ask
        step.asked_seconds += seconds
        member.learn_costs(seconds, tree.height(draft) if len(draft) else 0, lag, expected)
        if len(draft):
            step.found.add(draft, member)
        return len(draft) > 0

    def _read_share(self, plain_seconds: float) -> float:
        """What reading one token of a long text costs, over a one-row pass: as the target read its prompt."""
        return self._pace.row_seconds / plain_seconds if self._pace.row_seconds else READ_SHARE

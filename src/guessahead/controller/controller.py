"""How much to guess now, 0 included: as many nodes as make the most tokens per second.

A step with k guesses emits 1 + sum of P_i tokens on average, P_i being the chance that node i and all above
it are right, and takes the time of the drafter and of a pass of k + 1 rows. Over many steps the best rate of
tokens per second, lambda, is reached by choosing in each step the k with the largest

    value(k) = sum of P_i - lambda * (drafter's time + handling + t(k + 1) - t(1))

where handling is what it takes to have guesses at all, and lambda the rate that is being reached
(fractional programming: Dinkelbach 1967). The nodes are taken in the order of P_i, which for trees is the
best choice of k nodes (Sequoia, Chen et al. 2024; EAGLE-2, Li et al. 2024). Lambda and the handling are
measured (pace.py), so are the t(m) (costs.py); the P_i are learned (acceptance.py), what all these promise is
held against what came of it (surplus.py), and whom to ask for guesses is decided in asking.py.

The controller never changes what comes out, only how soon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from guessahead.controller.asking import Asker, Asking, Offer, Step, trust
from guessahead.controller.members import ASK_MEMORY, Guesses, Member, follow
from guessahead.controller.reasons import reasons
from guessahead.controller.running import Pace, Trials
from guessahead.controller.surplus import Surplus
from guessahead.core import tree
from guessahead.errors import StateError
from guessahead.types import NO_DRAFT

if TYPE_CHECKING:
    from guessahead.controller.pass_costs import Curve, PassCosts
    from guessahead.drafters.base import Drafter
    from guessahead.protocols import Proposer
    from guessahead.types import Ask, ChoiceContext, Draft, Draws, Verdict

# Most nodes of a draft. Beyond, even certain guesses gain little on a CPU: v rises as fast as the tokens do.
MAX_NODES: Final = 24
# Guesses below this share of what one of the first rows costs are not even listed. (Less than 1, as a learned
# chance may be above the stated one.)
LEAST_SHARE: Final = 0.5
CHEAPEST_OF: Final = 4


class Controller:
    """Decides for one generation. Drafters with `members` (a portfolio) are asked member by member."""

    def __init__(
        self,
        drafter: Drafter,
        costs: PassCosts,
        *,
        most: int = MAX_NODES,
        max_tokens: int = 1 << 30,
        explain: bool = False,
        draws: Draws | None = None,
    ) -> None:
        """costs: of the target, shared with other generations. most: nodes of a draft.

        max_tokens: of the generation. explain: keep reasons for `why`. draws: passed on with every question.
        """
        members = [Member(member) for member in drafter.members]
        self._free = [member for member in members if not member.drafter.pays_per_guess]
        self._paid = [member for member in members if member.drafter.pays_per_guess]
        self._costs, self._most, self._left = costs, most, max_tokens
        self._explain, self._draws = explain, draws
        self._why: dict[str, Any] | None = None
        self._pace, self._trials = Pace(), Trials()
        self._asker = Asker(self._pace, self._trials)
        self._last_count = 0
        self._current: Guesses | None = None
        self._step: Step | None = None
        self._checked = Surplus()  # of guesses that were verified
        self._asking: Asking[None] | None = None
        self._question: tuple[Drafter, Ask] | None = None
        self._nodes: list[int] = []
        # Guesses still open from earlier steps, and the node reached.
        self._older: tuple[Guesses, int] | None = None

    # --- before the pass ---

    def begin(self, context: ChoiceContext, budget: int) -> None:
        self._current, self._step, self._nodes = None, None, []
        self._asking = self._question = None
        self._trials.begin()
        curve = self._costs.curve(len(context.history))
        limit = min(budget, self._most, 2 * self._last_count + 8)
        if limit <= 0 or self._pace.num_steps == 0 or curve is None:
            if self._explain:
                self._why = {"plain": "the first token, the last one, or no pass measured yet"}
            return
        price = max(self._pace.rate, 1.0 / (curve.seconds + self._pace.rest_seconds))
        least = _least_probability(price, curve)
        self._step = Step(context, limit, price, curve, self._left, Guesses(), least, self._draws)
        self._asking = self._ask(self._step)
        self._question = next(self._asking, None)

    def ask(self) -> tuple[Proposer, Ask] | None:
        return self._question

    def answer(self, draft: Draft, seconds: float) -> None:
        if self._asking is None:
            raise StateError("nothing was asked")
        try:
            self._question = self._asking.send((draft, seconds))
        except StopIteration:
            self._asking = self._question = None

    def draft(self) -> Draft:
        return self._step.found.pick(self._nodes) if self._step and self._nodes else NO_DRAFT

    def _ask(self, step: Step) -> Asking[None]:
        """Ask whom it pays to ask, and choose the guesses to verify.

        Those that pay for every guess come last, the most promising first, each if it promises more (after
        one of its kind: much more) than what the others have found.
        """
        for member in self._free:
            yield from self._asker.ask_free(member, step)
        nodes = self._choose(step)
        for offer in self._offers(step):
            if step.found.drawn is None and (yield from self._asker.ask_paid(offer, step)):
                nodes = self._choose(step)
        for member in self._free:
            member.gain += (max(step.value, 0.0) - member.gain) * (1 - ASK_MEMORY)
        self._current = step.found if step.found.tokens else None
        self._nodes, self._last_count = nodes, len(nodes)
        if self._explain:
            self._why = reasons(step, (*self._free, *self._paid), nodes)

    def _offers(self, step: Step) -> list[Offer]:
        offers = [self._asker.offer(member, step) for member in self._paid if not member.resting()]
        return sorted(offers, key=lambda offer: -offer.worth) if len(offers) > 1 else offers

    def _choose(self, step: Step) -> list[int]:
        """The best nodes; notes their value in tokens."""
        found, v = step.found, step.curve.v
        if found.drawn is not None:
            return found.drawn[1]
        step.value = step.promised = 0.0
        if not found.tokens:
            return []
        order = found.by_reach()
        step_price = step.price * step.curve.seconds
        handling, surplus = step.price * self._pace.handling_seconds, min(self._checked.mean, 0.0)
        limit = min(step.limit, len(v) - 2, self._trusted())
        total, count = 0.0, 0
        for k, node in enumerate(order[:limit], 1):
            total += found.reach[node]
            value = total - step_price * (v[k + 1] - 1.0) - handling
            if value + surplus > step.value:
                step.value, step.promised, count = value + surplus, value, k
        if count == 0 and self._trials.pass_seconds:
            count = 1
        return order[:count]

    def _trusted(self) -> int:
        """How many nodes may be tried: few while all drafters are unknown."""
        members = (*self._free, *self._paid)
        if any(member.drafter.prior is not None for member in members):
            return self._most
        return max(trust(member, self._most) for member in members)

    # --- after the pass ---

    def observe(
        self, verdict: Verdict, num_rows: int, context_length: int, pass_seconds: float, seconds: float
    ) -> None:
        num_tokens = len(verdict.token_ids)
        self._left -= num_tokens
        if self._pace.num_steps == 0:
            self._pace.prompt(num_rows, pass_seconds)
            return
        plain = self._costs.update(num_rows, context_length, pass_seconds)
        if self._step is not None:
            self._settle(self._step, num_tokens, pass_seconds, seconds)
        plain_seconds = plain.seconds if plain else seconds
        self._pace.step(num_tokens, seconds, plain_seconds)
        self._trials.observe(num_tokens, seconds, plain_seconds + self._pace.rest_seconds)
        if self._current is not None or self._older is not None:
            self._learn(verdict.token_ids.tolist())

    def _settle(self, step: Step, num_tokens: int, pass_seconds: float, seconds: float) -> None:
        """What the questions of a step brought, beside what they promised."""
        rest_seconds = seconds - pass_seconds - step.asked_seconds
        guessed = self._last_count > 0
        self._pace.rest(guessed, rest_seconds)
        plain_seconds = step.curve.seconds + self._pace.rest_seconds
        brought = num_tokens - 1 - step.price * (seconds - plain_seconds)
        if guessed and not self._trials.pass_seconds:
            self._checked.learn(step.promised, brought + step.price * step.asked_seconds)
        for member, promised, before in step.promises:
            member.surplus.learn(promised, brought - before)

    def _learn(self, token_ids: list[int]) -> None:
        """Compare what was guessed, verified or not, with the tokens that came."""
        older, current = self._older, self._current
        if older is not None:
            self._older = follow(*older, token_ids)
        if current is not None:
            reached = follow(current, tree.ROOT, token_ids)
            if self._older is None:
                self._older = reached

    def why(self) -> dict[str, Any] | None:
        return self._why


def _least_probability(price: float, curve: Curve) -> float:
    """Less likely guesses cannot pay: each row costs at least as much as the cheapest of the first ones."""
    few = min(CHEAPEST_OF, len(curve.v) - 2)
    return LEAST_SHARE * price * curve.seconds * (curve.v[1 + few] - 1.0) / max(few, 1)

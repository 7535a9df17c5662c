"""How much to guess now, 0 included: as many nodes as make the most tokens per second.

A step with k guesses emits 1 + sum of P_i tokens on average, P_i being the chance that node i and all above
it are right, and takes the time of the drafter and of a pass of k + 1 rows. Over many steps the best rate of
tokens per second, lambda, is reached by choosing in each step the k with the largest

    value(k) = sum of P_i - lambda * (drafter's time + t(k + 1) - t(1))

(fractional programming: Dinkelbach 1967), where lambda is the rate that is being reached; it is measured. The
nodes are taken in the order of P_i, which for trees is the best choice of k nodes (Sequoia, Chen et al. 2024;
EAGLE-2, Li et al. 2024). The t(m) are measured (costs.py), the P_i learned (acceptance.py).

The controller never changes what comes out, only how soon.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from guessahead import tree
from guessahead.errors import StateError
from guessahead.gate import ChainGate, best_chain
from guessahead.guesses import ASK_MEMORY, SMALL_LAG, Guesses, Member, follow
from guessahead.types import Draft, Verdict

if TYPE_CHECKING:
    from guessahead.costs import Curve, PassCosts
    from guessahead.drafters.base import Drafter
    from guessahead.types import Choice

# Most nodes of a draft. Beyond, even certain guesses gain little on a CPU: v rises as fast as the tokens do.
MAX_NODES: Final = 24
# Time that may go into finding out whether a drafter pays that is not known to, over the time spent so far.
PROBE_SHARE: Final = 0.02
# Memory of the rate, per step: some twenty steps. Shorter follows noise, longer lags behind turning text.
RATE_MEMORY: Final = 0.95
# The rate begins as that of so many plain steps: one lucky first draft is no rate.
FIRST_STEPS: Final = 8
# A drafter without a known prior is trusted with one guess at first, and two more for each that was right.
TRUSTED_HITS: Final = 6
# A second model that lags behind must read before it guesses. The reading is set against the gain of this
# many drafts to come, or of one for so many tokens still wanted, as texts end before their limit.
CATCH_UP_DRAFTS: Final = 24
TOKENS_PER_DRAFT: Final = 5
# Guesses below this share of what one of the first rows costs are not even listed. (Less than 1, as a learned
# chance may be above the stated one.)
LEAST_SHARE: Final = 0.5
CHEAPEST_OF: Final = 4
# The part of a one-row pass that one more row takes while reading a long text, before it is measured.
READ_SHARE: Final = 0.2


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
            return _NOTHING
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


class Controller:
    """Decides for one generation. Drafters with `members` (a portfolio) are asked member by member."""

    def __init__(
        self,
        drafter: Drafter,
        costs: PassCosts,
        clock: Callable[[], float],
        *,
        most: int = MAX_NODES,
        max_tokens: int = 1 << 30,
        explain: bool = False,
    ) -> None:
        """costs: of the target, shared with other generations. most: nodes of a draft.

        max_tokens: of the generation. explain: keep reasons for `why`.
        """
        members = [Member(member) for member in drafter.members]
        self._free = [member for member in members if not member.drafter.pays_per_guess]
        self._paid = [member for member in members if member.drafter.pays_per_guess]
        self._costs, self._clock, self._most, self._left = costs, clock, most, max_tokens
        self._explain = explain
        self._why: dict[str, Any] | None = None
        self._seconds = self._tokens = self._elapsed = self._debt = self._probe = 0.0
        self._row_seconds = 0.0
        self._rate = 0.0
        self._num_steps = 0
        self._last_count = 0
        self._current: Guesses | None = None
        self._older: tuple[Guesses, int] | None = (
            None  # guesses still open from earlier steps, and the node reached
        )

    # --- before the pass ---

    def draft(self, choice: Choice, budget: int) -> Draft:
        self._current, self._probe = None, 0.0
        curve = self._costs.curve(len(choice.history))
        limit = min(budget, self._most, 2 * self._last_count + 8)
        if limit <= 0 or self._num_steps == 0 or curve is None:
            self._explain_plain("the first token, the last one, or no pass measured yet")
            return _NOTHING
        price = max(self._rate, 1.0 / curve.seconds)
        candidates = Guesses()
        # Less likely guesses cannot pay: each row costs at least as much as the cheapest of the first ones.
        few = min(CHEAPEST_OF, len(curve.v) - 2)
        least = LEAST_SHARE * price * curve.seconds * (curve.v[1 + few] - 1.0) / max(few, 1)
        for member in self._free:
            member.drafter.least_chance = least
            self._ask_free(member, choice, limit, price, candidates)
        nodes, value = self._choose(candidates, limit, price, curve)
        for member in self._paid:
            if self._ask_paid(member, choice, limit, price, curve, value, candidates):
                nodes, value = self._choose(candidates, limit, price, curve)
        for member in self._free:
            member.gain += (max(value, 0.0) - member.gain) * (1 - ASK_MEMORY)
        self._current = candidates if candidates.tokens else None
        if self._explain:
            self._why = self._reasons(candidates, nodes, value, price, curve)
        self._last_count = len(nodes)
        if not nodes:
            return _NOTHING
        return candidates.pick(nodes)

    def _ask_free(self, member: Member, choice: Choice, limit: int, price: float, found: Guesses) -> None:
        """Ask a drafter whose question costs the same however much it guesses."""
        pays = member.gain > price * member.ask_seconds
        if not pays:
            if self._debt + member.ask_seconds > PROBE_SHARE * self._elapsed:
                member.reason = "not asked: it has not paid, and the last trial is too recent"
                return
            self._debt += member.ask_seconds
        member.reason = "asked" if pays else "asked on trial"
        started = self._clock()
        draft = member.drafter.propose(choice, limit)
        member.learn_costs(self._clock() - started, len(draft), 0)
        if len(draft):
            found.add(draft, member)

    def _ask_paid(
        self,
        member: Member,
        choice: Choice,
        limit: int,
        price: float,
        curve: Curve,
        value: float,
        found: Guesses,
    ) -> bool:
        """Ask a drafter that pays for every guess, if that is worth more than what is there already."""
        drafter, track = member.drafter, member.track
        lag = drafter.lag(choice)
        each = member.guess_seconds
        if each is None:
            each = drafter.relative_cost * curve.seconds
        behind = max(lag - 1, 0) * (member.read_seconds or each * self._read_share(curve.seconds))
        cap = limit if track.num_hits >= TRUSTED_HITS else min(limit, 1 + 2 * track.num_hits)
        gain = best_chain(1.0, track.mean, 0, limit, each, price, curve)
        drafts = max(1.0, min(CATCH_UP_DRAFTS, self._left / TOKENS_PER_DRAFT))
        worth = gain - price * behind / (drafts if lag > SMALL_LAG else 1.0)
        member.probing = worth <= max(value, 0.0)
        if member.probing:
            cost = each + behind + curve.seconds * (curve.v[2] - 1.0)
            if worth > 0.0 or self._debt + cost > PROBE_SHARE * self._elapsed:
                member.reason = "not asked: less to gain than without it"
                return False
            self._debt += cost
            self._probe = curve.seconds
            cap = 1
        member.reason = "asked on trial" if member.probing else "asked"
        drafter.gate = ChainGate(track, cap, each, price, curve)
        started = self._clock()
        draft = drafter.propose(choice, cap)
        member.learn_costs(self._clock() - started, len(draft), lag)
        if len(draft):
            found.add(draft, member)
        return len(draft) > 0

    def _choose(self, found: Guesses, limit: int, price: float, curve: Curve) -> tuple[list[int], float]:
        """The best nodes, and their value in tokens."""
        if not found.tokens:
            return [], 0.0
        order = found.by_reach()
        v, step_price = curve.v, price * curve.seconds
        limit = min(limit, len(v) - 2, self._trusted(found))
        total, best, count = 0.0, 0.0, 0
        for k, node in enumerate(order[:limit], 1):
            total += found.reach[node]
            value = total - step_price * (v[k + 1] - 1.0)
            if value > best:
                best, count = value, k
        if count == 0 and self._probe:
            count = 1
        return order[:count], best

    def _trusted(self, found: Guesses) -> int:
        """How many nodes may be tried, of drafters that are still unknown."""
        most = 1
        for member in (*self._free, *self._paid):
            if member.drafter.prior is not None or member.track.num_hits >= TRUSTED_HITS:
                return self._most
            most = max(most, 1 + 2 * member.track.num_hits)
        return most

    def _read_share(self, plain_seconds: float) -> float:
        """What reading one token of a long text costs, over a one-row pass: as the target read its prompt."""
        return self._row_seconds / plain_seconds if self._row_seconds else READ_SHARE

    # --- after the pass ---

    def observe(
        self, verdict: Verdict, num_rows: int, context: int, pass_seconds: float, seconds: float
    ) -> None:
        num_tokens = len(verdict.token_ids)
        self._left -= num_tokens
        self._num_steps += 1
        if self._num_steps == 1:
            self._row_seconds = pass_seconds / num_rows
            return
        self._costs.update(num_rows, context, pass_seconds)
        self._elapsed += seconds
        if self._num_steps == 2:
            plain = self._costs.curve(context)
            self._tokens = FIRST_STEPS
            self._seconds = FIRST_STEPS * (plain.seconds if plain else seconds)
        self._seconds = self._seconds * RATE_MEMORY + seconds
        self._tokens = self._tokens * RATE_MEMORY + num_tokens
        self._rate = self._tokens / self._seconds if self._seconds > 0.0 else 0.0
        if self._probe and num_tokens > 1:
            self._debt = max(self._debt - self._probe * (num_tokens - 1), 0.0)
        self._learn(verdict.token_ids.tolist())

    def _learn(self, token_ids: list[int]) -> None:
        """Compare what was guessed, verified or not, with the tokens that came."""
        older, current = self._older, self._current
        if older is not None:
            self._older = follow(*older, token_ids)
        if current is not None:
            reached = follow(current, tree.ROOT, token_ids)
            if self._older is None:
                self._older = reached

    # --- reasons ---

    def why(self) -> dict[str, Any] | None:
        return self._why

    def _explain_plain(self, reason: str) -> None:
        if self._explain:
            self._why = {"plain": reason}

    def _reasons(
        self, found: Guesses, nodes: list[int], value: float, price: float, curve: Curve
    ) -> dict[str, Any]:
        num_rows = min(len(found.tokens) + 1, len(curve.v) - 1)
        return {
            "tokens_per_second": price,
            "plain_seconds": curve.seconds,
            "v": [round(value, 3) for value in curve.v[1 : num_rows + 1]],
            "members": [
                {
                    "drafter": member.drafter.name,
                    "decision": member.reason,
                    "mean": round(member.track.mean, 3),
                    "num_scored": member.track.num_trials,
                }
                for member in (*self._free, *self._paid)
            ],
            "candidates": [
                {
                    "token_id": token,
                    "parent": found.parents[node],
                    "confidence": round(found.sources[node][0][1], 3),
                    "reach": round(found.reach[node], 3),
                    "by": [member.drafter.name for member, _ in found.sources[node]],
                    "chosen": node in nodes,
                }
                for node, token in enumerate(found.tokens)
            ],
            "value": round(value, 3),
        }


_NOTHING: Final = Draft()

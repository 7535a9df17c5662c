"""How much to guess now, 0 included: as many nodes as make the most tokens per second.

A step with k guesses emits 1 + sum of P_i tokens on average, P_i being the path probability of node i (that
it and all above it are right), and takes the time of the drafter and of a pass of k + 1 rows. Over many steps
the best rate, lambda, is reached by choosing in each step the k with the largest

    expected gain(k) = sum of P_i - lambda * (drafter's time + handling + v(k + 1) - 1)

where the unit of time is a pass of one row, handling is what it takes to have guesses at all, and lambda the
rate that is being reached (fractional programming: Dinkelbach 1967). The nodes are taken in the order of P_i,
which for trees is the best choice of k nodes (Sequoia, Chen et al. 2024; EAGLE-2, Li et al. 2024). Lambda and
the handling are measured here, so is v(m) (pass_costs.py); the P_i are learned (probability.py).

The controller never changes what comes out, only how fast.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from guessahead.controller.members import Candidates, Member, Node
from guessahead.controller.running import Mean
from guessahead.errors import StateError
from guessahead.types import NO_DRAFT, Ask, StopRule

if TYPE_CHECKING:
    from guessahead.controller.pass_costs import LearnedPassCosts
    from guessahead.drafters.base import Drafter
    from guessahead.protocols import Proposer
    from guessahead.types import ChoiceContext, Draft, Draws, Verdict

# Most nodes of a draft. Beyond, even certain guesses gain little on a CPU: v rises as fast as the tokens do.
MAX_NODES: Final = 24
# Memory of the rate, per step: some ten steps. Shorter follows noise, longer lags behind turning text. It
# begins as the rate of so many plain steps: one lucky first draft is no rate.
RATE_MEMORY: Final = 0.9
FIRST_STEPS: Final = 8.0
# Memory of what a step takes beside its pass and its questions: some ten steps.
REST_MEMORY: Final = 0.9
# What a drafter reads once, before its first guess, is set against the gain of this many drafts to come, or
# of one for so many tokens still wanted, as texts end before their limit.
CATCH_UP_DRAFTS: Final = 24
TOKENS_PER_DRAFT: Final = 5
# Time that may go into finding out whether a drafter pays that is not known to, over the time spent so far.
TRIAL_SHARE: Final = 0.02


@dataclass(slots=True)
class Step:
    """What is known when a step is decided; times in passes of one row.

    limit: most guesses. rate: tokens that a pass is worth. nodes: the guesses to verify; expected_gain:
    tokens that they gain. asked: time that the drafters took.
    """

    context: ChoiceContext
    limit: int
    rate: float
    candidates: Candidates = field(default_factory=Candidates)
    nodes: list[Node] = field(default_factory=list)
    expected_gain: float = 0.0
    asked: float = 0.0


Asking = Generator[tuple["Drafter", Ask], tuple["Draft", float], None]


class Controller:
    """The policy of one generation. Drafters with `members` (a portfolio) are asked member by member."""

    def __init__(
        self,
        drafter: Drafter,
        costs: LearnedPassCosts,
        *,
        most: int = MAX_NODES,
        max_tokens: int = 1 << 30,
        explain: bool = False,
        draws: Draws | None = None,
    ) -> None:
        """costs: of the target, shared with other generations. most: nodes of a draft.

        max_tokens: of the generation. explain: keep reasons for `why`. draws: passed on with every question.
        """
        self._free = [Member(each) for each in drafter.members if not each.pays_per_guess]
        self._paid = [Member(each) for each in drafter.members if each.pays_per_guess]
        self._costs, self._most, self._num_left = costs, most, max_tokens
        self._explain, self._draws = explain, draws
        self._why: dict[str, Any] | None = None
        self._tokens = Mean(RATE_MEMORY, 1.0, FIRST_STEPS)  # of a step, lately
        self._time = Mean(RATE_MEMORY, 1.0, FIRST_STEPS)
        self._rest = Mean(REST_MEMORY), Mean(REST_MEMORY)  # of steps without guesses, and with
        self._for_trials = 0.0
        self._step: Step | None = None
        self._asking: Asking | None = None
        self._question: tuple[Drafter, Ask] | None = None

    # --- before the pass ---

    def begin(self, context: ChoiceContext, budget: int) -> None:
        limit, self._asking, self._question = min(budget, self._most, len(self._costs.v) - 2), None, None
        rate = max(self._tokens.value / self._time.value, 1.0 / (1.0 + self._rest[False].value))
        self._step = Step(context, limit, rate)
        if limit <= 0 or not self._costs.seconds:
            self._why = {"plain": "the last token, or no pass measured yet"}
            return
        self._asking = self._questions(self._step)
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
        return self._step.candidates.pick(self._step.nodes) if self._step and self._step.nodes else NO_DRAFT

    @property
    def _handling(self) -> float:
        """What a step with guesses takes more, its pass and its questions apart; 0.0 before one was seen."""
        return max(self._rest[True].value - self._rest[False].value, 0.0)

    def _questions(self, step: Step) -> Asking:
        """Ask the drafters that are worth their time: first those whose question costs the same however much
        they guess, then the others, the most promising first, each if it is expected to gain more than what
        is there.
        """
        for member in self._free:
            time = member.time.value
            yield from self._consider(member, step, member.gain.value > step.rate * time, time)
        expected = [(self._expected_gain(member, step), member) for member in self._paid]
        for gain, member in sorted(expected, key=lambda pair: -pair[0]):
            time = member.time.value + member.reading(step.context)
            yield from self._consider(member, step, gain > step.expected_gain, time)
        for member in self._free:
            member.gain.learn(step.expected_gain)
        self._why = self._reasons(step) if self._explain else None

    def _consider(self, member: Member, step: Step, pays: bool, time: float) -> Asking:
        """Ask one drafter if it pays, or on trial; time: that this is expected to take."""
        if step.candidates.sampled or not (pays or time <= self._for_trials):
            member.decision = "not asked: less to gain than without it"
            return
        member.decision = "asked" if pays else "asked on trial"
        # Less than a row costs, as a learned probability may be above the stated one.
        least, most, rule = step.rate * (self._costs.v[2] - 1.0) / 2, member.trusted(step.limit), None
        if member.drafter.pays_per_guess:
            most = most if pays else 1
            rule = self._stop_rule(member, most, step.rate)
        lag = member.drafter.lag(step.context)
        draft, seconds = yield member.drafter, Ask(step.context, most, rule, least, self._draws)
        time = seconds / self._costs.seconds
        step.asked += time
        self._for_trials -= 0.0 if pays else time
        member.learn_time(time, draft, lag)
        step.candidates.add(draft, member)
        self._choose(step)

    def _choose(self, step: Step) -> None:
        """The best nodes, and what they are expected to gain."""
        candidates, v, rate = step.candidates, self._costs.v, step.rate
        step.expected_gain = 0.0
        if candidates.sampled:
            step.nodes = candidates.sampled
            return
        total, count, order = 0.0, 0, candidates.ranked()
        for k, node in enumerate(order[: step.limit], 1):
            total += node.path_probability
            gain = total - rate * (v[k + 1] - 1.0 + self._handling)
            if gain > step.expected_gain:
                step.expected_gain, count = gain, k
        step.nodes = order[:count]

    def _expected_gain(self, member: Member, step: Step) -> float:
        """The most tokens that a chain of guesses of this drafter is expected to gain."""
        mean, each, v = member.track.mean.value, member.time.value, self._costs.v
        once = member.reading(step.context)
        if once > each:
            once /= max(1.0, min(CATCH_UP_DRAFTS, self._num_left / TOKENS_PER_DRAFT))
        best, total, path_probability = 0.0, 0.0, 1.0
        for k in range(1, step.limit + 1):
            path_probability *= mean
            if path_probability <= step.rate * each:
                break  # no further guess pays for its own drafting
            total += path_probability
            best = max(best, total - step.rate * (k * each + v[k + 1] - 1.0))
        return best - step.rate * (once + self._handling)

    def _stop_rule(self, member: Member, most: int, rate: float) -> StopRule:
        """The rule that stops a chain where the next guess is expected to gain less than it costs."""
        mean, each, v = max(member.track.mean.value, 1e-6), member.time.value, self._costs.v
        least = [rate * (each + v[n + 2] - v[n + 1]) / mean for n in range(1, most)]
        return StopRule((0.0, *least), member.track.calibration())

    # --- after the pass ---

    def observe(
        self, verdict: Verdict, num_rows: int, context_length: int, pass_seconds: float, seconds: float
    ) -> None:
        num_tokens, step = len(verdict.token_ids), self._step
        self._num_left -= num_tokens
        if step is None:
            return  # the prompt
        self._costs.learn(num_rows, pass_seconds)
        time = seconds / self._costs.seconds
        self._for_trials += TRIAL_SHARE * time
        self._tokens.learn(num_tokens)
        self._time.learn(time)
        rest = (seconds - pass_seconds) / self._costs.seconds - step.asked
        self._rest[bool(step.nodes)].learn(min(rest, 1.0))  # a core that was stolen says nothing
        step.candidates.score(verdict.token_ids.tolist())

    def why(self) -> dict[str, Any] | None:
        return self._why

    def _reasons(self, step: Step) -> dict[str, Any]:
        """Costs, which drafters were asked, and every guess with its probability."""
        return {
            "tokens_per_second": step.rate / self._costs.seconds,
            "plain_seconds": self._costs.seconds,
            "v": [round(value, 3) for value in self._costs.v[1 : len(step.candidates.nodes) + 2]],
            "members": [member.to_json() for member in (*self._free, *self._paid)],
            "candidates": step.candidates.to_json(step.nodes),
            "value": round(step.expected_gain, 3),
        }

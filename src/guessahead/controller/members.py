"""The guesses of one step while they are weighed: who made them, and how likely each path is to be right."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from guessahead.controller.probability import MOST, Track
from guessahead.controller.surplus import Surplus
from guessahead.core import tree
from guessahead.types import Draft

if TYPE_CHECKING:
    from guessahead.drafters.base import Drafter

# A guess counts at most so many times as long as it was expected to take.
MAX_SURPRISE: Final = 2.0
# What a drafter that was never asked is assumed to gain per question, in tokens: enough to be asked once.
FIRST_GAIN: Final = 0.3
# Memory of what a drafter costs and gains, per question: some eight.
ASK_MEMORY: Final = 0.88
# Most steps in which a drafter is not even considered, after it was not worth asking: considering it costs
# microseconds, and what is known about it changes slowly.
MOST_REST: Final = 3
# A model that is at most so many tokens behind reads them along with its first guess.
SMALL_LAG: Final = 4
# The confidence of a drafter that states none.
UNKNOWN: Final = 0.65


class Member:
    """A drafter, and what is known about it."""

    def __init__(self, drafter: Drafter) -> None:
        self.drafter = drafter
        self.track = Track(drafter.prior, drafter.mean_prior)
        self.ask_seconds = 0.0  # of one question, for a drafter that does not pay per guess
        self.gain = FIRST_GAIN  # tokens that one question gained
        self.guess_seconds: float | None = None  # of one guess, for one that does
        self.read_seconds: float | None = None  # per token that it must catch up with
        self.probing = False
        self.reason = ""
        self._rest = self._declined = 0
        self.surplus = Surplus()  # of its answers, for one that pays for every guess

    def resting(self) -> bool:
        """Called once a step: whether it need not be considered, as it was not worth asking of late."""
        self._rest -= 1
        return self._rest >= 0

    def decline(self) -> None:
        """It is not worth asking: leave it alone for some steps, more of them each time."""
        self._declined = min(2 * self._declined + 1, MOST_REST)
        self._rest = self._declined

    def wake(self) -> None:
        """It is asked because it pays."""
        self._rest = self._declined = 0

    def learn_costs(self, seconds: float, num_guesses: int, lag: int, expected: float) -> None:
        """A question took so long. num_guesses: one behind the other; those beside them cost nothing.

        expected: seconds of one guess, as assumed before. A stolen core must not put a drafter off for long.
        """
        if not self.drafter.pays_per_guess:
            self.ask_seconds += (seconds - self.ask_seconds) * (1 - ASK_MEMORY if self.ask_seconds else 1.0)
            return
        if num_guesses == 0:
            return
        if lag <= SMALL_LAG:
            each = min(seconds / num_guesses, MAX_SURPRISE * expected)
            old = self.guess_seconds
            self.guess_seconds = each if old is None else old + (each - old) * (1 - ASK_MEMORY)
        elif self.guess_seconds is not None:
            self.read_seconds = max(seconds - self.guess_seconds * num_guesses, 0.0) / lag


class Guesses:
    """The guesses of all members, as lists: one node per token and parent.

    drawn: a draft that was drawn by chance, and its nodes: it must be verified whole, and nothing beside it
        (rejection.py).
    """

    __slots__ = ("_chain", "_found", "depths", "drawn", "kids", "parents", "reach", "sources", "tokens")

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.parents: list[int] = []
        self.depths: list[int] = []
        self.reach: list[float] = []  # chance that the node and all above it are right
        self.sources: list[list[tuple[Member, float]]] = []  # who guessed it, how confident
        self.kids: dict[int, list[int]] = {}
        self._found: dict[tuple[int, int], int] = {}  # (parent, token) -> node
        self._chain: Draft | None = None  # the usual case: nothing else was taken in
        self.drawn: tuple[Draft, list[int]] | None = None

    def add(self, draft: Draft, member: Member) -> None:
        """Take in a draft; a guess that is there already becomes likelier."""
        if not self.tokens and draft.parents is None:
            self._add_chain(draft, member)
            return
        if self._chain is not None:
            self._found = {(parent, token): parent + 1 for parent, token in enumerate(self.tokens, -1)}
            self._chain = None
        track, depths, reach = member.track, self.depths, self.reach
        confidence = [UNKNOWN] * len(draft) if draft.probabilities is None else draft.probabilities.tolist()
        parents = None if draft.parents is None else draft.parents.tolist()
        own: list[int] = []
        for i, token in enumerate(draft.token_ids.tolist()):
            above = i - 1 if parents is None else parents[i]
            parent = above if above < 0 else own[above]
            depth = 0 if parent < 0 else depths[parent] + 1
            chance = track.chance(confidence[i], depth)
            before = 1.0 if parent < 0 else reach[parent]
            node = self._found.get((parent, token), -1)
            if node < 0:
                node = self._found[parent, token] = len(self.tokens)
                self.kids.setdefault(parent, []).append(node)
                self.tokens.append(token)
                self.parents.append(parent)
                depths.append(depth)
                reach.append(before * chance)
                self.sources.append([(member, confidence[i])])
            else:
                known = reach[node] / before if before > 0.0 else 0.0
                reach[node] = before * min(1.0 - (1.0 - known) * (1.0 - chance), MOST)
                self.sources[node].append((member, confidence[i]))
            own.append(node)
        if draft.distributions is not None:
            self.drawn = draft, own

    def _add_chain(self, draft: Draft, member: Member) -> None:
        """The same for a chain that comes first, without looking for what is there."""
        self._chain = draft
        num = len(draft)
        confidence = [UNKNOWN] * num if draft.probabilities is None else draft.probabilities.tolist()
        self.tokens = draft.token_ids.tolist()
        self.parents = list(range(-1, num - 1))
        self.depths = list(range(num))
        self.kids = {node - 1: [node] for node in range(num)}
        self.sources = [[(member, sure)] for sure in confidence]
        chance_of, reach = member.track.chance, 1.0
        for depth, sure in enumerate(confidence):
            reach *= chance_of(sure, depth)
            self.reach.append(reach)
        if draft.distributions is not None:
            self.drawn = draft, list(range(num))

    def by_reach(self) -> list[int]:
        """Nodes, the likeliest first; a parent comes before its children."""
        order = range(len(self.tokens))
        if self._chain is not None:
            return list(order)
        return sorted(order, key=lambda node: (-self.reach[node], node))

    def pick(self, nodes: list[int]) -> Draft:
        """The draft of these nodes, which hold every parent of theirs."""
        if self.drawn is not None:
            draft, nodes = self.drawn
            return replace(draft, origins=(self.sources[nodes[0]][-1][0].drafter.name,) * len(draft))
        if self._chain is not None:
            chain, num = self._chain, len(nodes)
            sure = None if chain.probabilities is None else chain.probabilities[:num]
            return Draft(chain.token_ids[:num], None, sure, (self.sources[0][0][0].drafter.name,) * num)
        nodes = sorted(nodes)
        new = {node: i for i, node in enumerate(nodes)}
        parents = [new.get(self.parents[node], tree.ROOT) for node in nodes]
        sources = [self.sources[node][0] for node in nodes]
        return tree.draft_of(
            [self.tokens[node] for node in nodes],
            None if parents == list(range(-1, len(nodes) - 1)) else parents,
            [confidence for _, confidence in sources],
            [member.drafter.name for member, _ in sources],
        )


def follow(guessed: Guesses, node: int, token_ids: list[int]) -> tuple[Guesses, int] | None:
    """Walk the guesses along the tokens from `node` on, and tell each drafter how it did.

    Returns where the guesses go on; None where they end or are wrong.
    """
    for token in token_ids:
        followed = -1
        found: dict[
            Member, tuple[float, bool, bool]
        ] = {}  # its highest confidence; that guess, any one is right
        for child in guessed.kids.get(node, ()):
            hit = guessed.tokens[child] == token
            if hit:
                followed = child
            depth = guessed.depths[child]
            for member, confidence in guessed.sources[child]:
                member.track.record(confidence, depth, hit)
                highest, main, any_hit = found.get(member, (-1.0, False, False))
                if confidence > highest:
                    highest, main = confidence, hit
                found[member] = highest, main, hit or any_hit
        for member, (_, main, any_hit) in found.items():
            member.track.record_position(any_hit, main)
        if followed < 0:
            return None
        node = followed
    return guessed, node

"""The drafters that are asked, and the guesses of one step: who made them, and how likely they are right."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from guessahead.controller.probability import Track
from guessahead.controller.running import Mean
from guessahead.core import tree
from guessahead.types import NO_DRAFT, Draft

if TYPE_CHECKING:
    from guessahead.drafters.base import Drafter
    from guessahead.types import ChoiceContext

# A guess counts at most so many times as long as it was expected to take: a stolen core must not put a
# drafter off for long.
MAX_SURPRISE: Final = 2.0
# Memory of what a drafter costs and gains, per question: some eight.
ASK_MEMORY: Final = 0.88
# A second model that lags behind must read before it guesses: at first, each token is assumed to take this
# part of a guess. At most so many tokens are read along with its first guess.
READ_SHARE: Final = 0.2
SMALL_LAG: Final = 4
# The probability of a guess whose drafter states none.
UNKNOWN: Final = 0.65


class Member:
    """A drafter, and what is known about it; times in passes of one row.

    gain: tokens that a question gained, of one that does not pay per guess. time: of a question; for one that
    pays per guess, of a guess. decision: what became of it in this step, in words.
    """

    def __init__(self, drafter: Drafter) -> None:
        self.drafter = drafter
        self.track = Track(drafter.prior, drafter.mean_prior)
        self.gain, self.time = Mean(ASK_MEMORY), Mean(ASK_MEMORY, drafter.relative_cost)
        self._reading = READ_SHARE * drafter.relative_cost  # of one token
        self.decision = ""

    def trusted(self, limit: int) -> int:
        """How many guesses it is asked for: without a known prior one at first, and two more for each hit."""
        return limit if self.drafter.prior else min(limit, 1 + 2 * self.track.num_hits)

    def reading(self, context: ChoiceContext) -> float:
        """Time of what it has to read before its next guess."""
        return max(self.drafter.lag(context) - 1, 0) * self._reading

    def learn_time(self, time: float, draft: Draft, lag: int) -> None:
        """A question took so long. lag: tokens that were read before. Siblings of a guess cost nothing."""
        if not self.drafter.pays_per_guess:
            self.time.learn(time)
        elif lag > SMALL_LAG:
            self._reading = max(time - tree.height(draft) * self.time.value, 0.0) / lag
        elif len(draft):
            self.time.learn(min(time / tree.height(draft), MAX_SURPRISE * self.time.value))

    def to_json(self) -> dict[str, Any]:
        """For `Controller.why`."""
        return {
            "drafter": self.drafter.name,
            "note": self.drafter.note,
            "decision": self.decision,
            "mean": round(self.track.mean.value, 3),
            "num_scored": self.track.num_scored,
        }


@dataclass(eq=False, slots=True)
class Node:
    """A guess. depth: 0 = of the next token. path_probability: that it and all above it are right.

    sources: who guessed it, with the probability stated. children: by token.
    """

    token: int
    parent: Node | None
    depth: int
    path_probability: float = 0.0
    sources: list[tuple[Member, float]] = field(default_factory=list)
    children: dict[int, Node] = field(default_factory=dict)


class Candidates:
    """The guesses of all members in one tree; a parent comes before its children.

    sampled: the nodes of a draft that was sampled, if there is one: it must be verified whole, and nothing
    beside it (core/rejection.py).
    """

    def __init__(self) -> None:
        self.nodes, self.sampled = list[Node](), list[Node]()
        self._root = Node(-1, None, -1, 1.0)
        self._sampled_draft = NO_DRAFT

    def add(self, draft: Draft, member: Member) -> None:
        """Take in a draft; a guess that is there already becomes likelier."""
        stated = [UNKNOWN] * len(draft) if draft.probabilities is None else draft.probabilities.tolist()
        parents, own = tree.parents_of(draft).tolist(), list[Node]()
        for token, above, said in zip(draft.token_ids.tolist(), parents, stated, strict=True):
            parent = own[above] if above >= 0 else self._root
            node = parent.children.get(token)
            if node is None:
                node = parent.children[token] = Node(token, parent, parent.depth + 1)
                self.nodes.append(node)
            missing = parent.path_probability - node.path_probability
            node.path_probability += missing * member.track.probability(said, node.depth)
            node.sources.append((member, said))
            own.append(node)
        if draft.distributions is not None:
            self.sampled, self._sampled_draft = own, draft

    def ranked(self) -> list[Node]:
        """The likeliest first; a parent comes before its children."""
        return sorted(self.nodes, key=lambda node: -node.path_probability)

    def pick(self, nodes: list[Node]) -> Draft:
        """The draft of these nodes; a parent of theirs is among them, before its children."""
        expected = sum(node.path_probability for node in nodes)
        if self.sampled:
            origins = tuple(node.sources[-1][0].drafter.name for node in nodes)
            return replace(self._sampled_draft, origins=origins, expected=expected)
        number: dict[Node | None, int] = {node: i for i, node in enumerate(nodes)}
        parents = [number.get(node.parent, tree.ROOT) for node in nodes]
        return tree.draft_of(
            [node.token for node in nodes],
            None if parents == list(range(-1, len(nodes) - 1)) else parents,
            [node.sources[0][1] for node in nodes],
            [node.sources[0][0].drafter.name for node in nodes],
            expected,
        )

    def score(self, token_ids: list[int]) -> None:
        """Follow the guesses along the tokens that came, and tell each drafter how its guesses did."""
        node = self._root
        for token in token_ids:
            # Its highest probability stated; whether that guess is right.
            likeliest: dict[Member, tuple[float, bool]] = {}
            for child in node.children.values():
                for member, stated in child.sources:
                    member.track.record(stated, child.depth, child.token == token)
                    if member not in likeliest or stated > likeliest[member][0]:
                        likeliest[member] = stated, child.token == token
            for member, (_, hit) in likeliest.items():
                member.track.record_position(hit)
            node = node.children.get(token) or Node(token, node, 0)

    def to_json(self, chosen: list[Node]) -> list[dict[str, Any]]:
        """For `Controller.why`."""
        number: dict[Node | None, int] = {node: i for i, node in enumerate(self.nodes)}
        return [
            {
                "token_id": node.token,
                "parent": number.get(node.parent, tree.ROOT),
                "confidence": round(node.sources[0][1], 3),
                "reach": round(node.path_probability, 3),
                "by": [member.drafter.name for member, _ in node.sources],
                "chosen": node in chosen,
            }
            for node in self.nodes
        ]

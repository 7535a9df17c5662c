"""All passages of a growing text, and how it went on after each: the suffix automaton.

(Blumer et al. 1985; built online, a constant number of steps per token on average.) A state stands for the
passages that end at the same places, and knows how often they occurred. The state of the longest passage
that equals the end of the text and stood somewhere before is always at hand, whatever its length.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

# Occurrences are counted for so many passages per token, the longest first. Ordinary text has fewer that end
# at one place; text that repeats one token has as many as tokens, and would take quadratic time.
MAX_COUNTED: Final = 24

START: Final = 0
"""The state of the empty passage."""

# Tokens of the passage, number of ways, their occurrences, and some of them: (token, occurrences, state).
Ways = tuple[int, int, int, list[tuple[int, int, int]]]


class SuffixAutomaton:
    """Append-only. Tokens are any integers; a token that never recurs (-1, -2, ...) separates texts.

    Most states go on in one way only, which is kept in two lists; `_more` holds the others' ways.
    """

    __slots__ = ("_counts", "_end", "_latest", "_lengths", "_links", "_more", "_next", "_token", "num_tokens")

    def __init__(self) -> None:
        self._links = [-1]  # the longest shorter passage that ends at more places
        self._lengths = [0]  # tokens of the state's longest passage
        self._counts = [0]
        self._token = [-1]  # the one way on: its token (-1: none, or several) and where it leads
        self._next = [-1]
        self._latest = [-1]  # the token that followed last time
        self._more: dict[int, dict[int, int]] = {}
        self._end = START
        self.num_tokens = 0

    def extend(self, token_ids: Iterable[int]) -> None:
        """Append tokens to the text."""
        for token in token_ids:
            self._append(token)

    @property
    def longest_match(self) -> tuple[int, int]:
        """The longest passage that ends the text and also ended earlier: its state, and its length."""
        state = self._links[self._end]
        return (START, 0) if state < 0 else (state, self._lengths[state])

    def step(self, state: int, length: int, token: int) -> tuple[int, int]:
        """The longest passage that ends with `token` and otherwise with (state, length), and occurs."""
        following = self._follow(state, token)
        while following < 0:
            state = self._links[state]
            if state < 0:
                return START, 0
            length = self._lengths[state]
            following = self._follow(state, token)
        return following, length + 1

    def ways(self, state: int, length: int, most: int) -> Ways:
        """How the text went on after a passage, the `most` likeliest ways.

        Equal counts are ordered by which came last. A passage that stood only at the end of the text stands
        for its longest part that was followed by something; the length in the answer is that one's.
        """
        while state > START:
            token = self._token[state]
            if token >= 0:
                following = self._next[state]
                count = self._counts[following]
                return length, 1, count, [(token, count, following)]
            more = self._more.get(state)
            if more is not None:
                latest, counts = self._latest[state], self._counts
                # Separators, which are negative, lead nowhere. (A copy: another thread may append.)
                listed = [(token, counts[to], to) for token, to in list(more.items()) if token >= 0]
                if listed:
                    if len(listed) > 1:
                        listed.sort(key=lambda way: (-way[1], way[0] != latest))
                    return length, len(listed), sum([way[1] for way in listed]), listed[:most]
            state = self._links[state]
            length = self._lengths[state]
        return 0, 0, 0, []

    def _follow(self, state: int, token: int) -> int:
        if self._token[state] == token and self._next[state] >= 0:
            return self._next[state]
        more = self._more.get(state)
        return -1 if more is None else more.get(token, -1)

    def _lead(self, state: int, token: int, to: int) -> None:
        """Make `token` lead from `state` to `to`."""
        more = self._more.get(state)
        if more is not None:
            more[token] = to
        elif self._next[state] < 0 or self._token[state] == token:
            self._token[state], self._next[state] = token, to
        else:
            self._more[state] = {self._token[state]: self._next[state], token: to}
            self._token[state], self._next[state] = -1, -1

    def _new(self, length: int) -> int:
        self._links.append(START)
        self._lengths.append(length)
        self._counts.append(0)
        self._token.append(-1)
        self._next.append(-1)
        self._latest.append(-1)
        return len(self._links) - 1

    def _append(self, token: int) -> None:
        self.num_tokens += 1
        end = self._new(self._lengths[self._end] + 1)
        links, latest, state = self._links, self._latest, self._end
        for _ in range(MAX_COUNTED):
            latest[state] = token
            state = links[state]
            if state < 0:
                break
        state = self._end
        following = -1
        while state >= 0:
            following = self._follow(state, token)
            if following >= 0:
                break
            self._lead(state, token, end)
            state = links[state]
        if state >= 0:
            links[end] = self._split(state, token, following)
        self._end = end
        counts, state = self._counts, end
        for _ in range(MAX_COUNTED):
            counts[state] += 1
            state = links[state]
            if state <= START:
                break

    def _split(self, state: int, token: int, following: int) -> int:
        """The state of exactly the passages state + token: `following`, or the part of it that is them."""
        if self._lengths[following] == self._lengths[state] + 1:
            return following
        copy = self._new(self._lengths[state] + 1)
        self._links[copy] = self._links[following]
        self._counts[copy] = self._counts[following]
        self._token[copy], self._next[copy] = self._token[following], self._next[following]
        self._latest[copy] = self._latest[following]
        if following in self._more:
            self._more[copy] = dict(self._more[following])
        self._links[following] = copy
        while state >= 0 and self._follow(state, token) == following:
            self._lead(state, token, copy)
            state = self._links[state]
        return copy

"""How fast a generation is so far, and how much of its time may go into trials."""

from __future__ import annotations

from typing import Final

# Time that may go into finding out whether a drafter pays that is not known to, over the time spent so far.
PROBE_SHARE: Final = 0.02
# Memory of the rate, per step: some twenty steps. Shorter follows noise, longer lags behind turning text.
RATE_MEMORY: Final = 0.95
# Memory of what a step takes beside its pass: some ten steps; one that was disturbed counts little.
REST_MEMORY: Final = 0.9
MAX_REST_SURPRISE: Final = 2.0
# The rate begins as that of so many plain steps: one lucky first draft is no rate.
FIRST_STEPS: Final = 8


class Pace:
    """Tokens per second, as reached lately.

    num_steps: all steps so far, the prompt's included. rate: tokens per second; 0.0 while nothing is known.
    row_seconds: what the target took to read one token of the prompt; 0.0 before it did.
    """

    __slots__ = ("_rest", "_seconds", "_tokens", "num_steps", "rate", "row_seconds")

    def __init__(self) -> None:
        self._seconds = self._tokens = 0.0
        # Seconds of a step beside its pass and its questions: without guesses, with.
        self._rest: list[float | None] = [None, None]
        self.rate = self.row_seconds = 0.0
        self.num_steps = 0

    @property
    def rest_seconds(self) -> float:
        """What a step without guesses takes beside its pass."""
        return self._rest[False] or 0.0

    @property
    def handling_seconds(self) -> float:
        """What it takes to have guesses at all: weighing, packing, unpacking; 0.0 before it was seen."""
        plain, guessed = self._rest
        return 0.0 if plain is None or guessed is None else max(guessed - plain, 0.0)

    def rest(self, guessed: bool, seconds: float) -> None:
        """A step took so long beside its pass and its questions."""
        old = self._rest[guessed]
        if old is None:
            self._rest[guessed] = seconds
        else:
            surprise = min(seconds, MAX_REST_SURPRISE * old) - old if old > 0.0 else seconds
            self._rest[guessed] = old + surprise * (1 - REST_MEMORY)

    def prompt(self, num_rows: int, seconds: float) -> None:
        """The first step: a pass over so many tokens of the prompt."""
        self.num_steps += 1
        self.row_seconds = seconds / num_rows

    def step(self, num_tokens: int, seconds: float, plain_seconds: float) -> None:
        """A later step emitted so many tokens; plain_seconds: of one that guesses nothing."""
        self.num_steps += 1
        if self.num_steps == 2:
            self._tokens, self._seconds = FIRST_STEPS, FIRST_STEPS * plain_seconds
        self._seconds = self._seconds * RATE_MEMORY + seconds
        self._tokens = self._tokens * RATE_MEMORY + num_tokens
        self.rate = self._tokens / self._seconds if self._seconds > 0.0 else 0.0


class Trials:
    """Time lent to drafters that are not known to pay: a small share of the time so far, paid back by hits.

    pass_seconds: of a plain pass, in a step in which a drafter that pays for every guess is on trial; else 0.
    """

    __slots__ = ("_debt", "_elapsed", "_lent", "pass_seconds")

    def __init__(self) -> None:
        self._debt = self._elapsed = self._lent = 0.0
        self.pass_seconds = 0.0

    def begin(self) -> None:
        """A step begins."""
        self.pass_seconds = self._lent = 0.0

    def lend(self, seconds: float) -> bool:
        """Take so much time for a trial, if there is as much."""
        if self._debt + seconds > PROBE_SHARE * self._elapsed:
            return False
        self._debt += seconds
        self._lent += seconds
        return True

    def owe(self, seconds: float) -> None:
        """So much time went into a drafter that has shown nothing yet."""
        self._debt += seconds

    def observe(self, num_tokens: int, seconds: float, plain_seconds: float) -> None:
        """A step went by; plain_seconds: of one without guesses. What a trial saved was no loss."""
        self._elapsed += seconds
        if self.pass_seconds:
            # What it took in truth, but not all of a core that was stolen.
            spent = min(seconds - plain_seconds, self._lent + self.pass_seconds)
            saved = self.pass_seconds * (num_tokens - 1)
            self._debt = max(self._debt - self._lent + spent - saved, 0.0)

"""What the harness asks of an engine: answers of a given length, with the time they took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class NotInstalledError(Exception):
    """The peer is not there; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer. seconds: from the first token to the last. num_drafted, num_accepted: if the peer tells."""

    token_ids: tuple[int, ...]
    first_token_seconds: float
    seconds: float
    num_drafted: int | None = None
    num_accepted: int | None = None

    @property
    def tokens_per_second(self) -> float:
        """Of the tokens after the first one, as `guessahead bench` counts."""
        return (len(self.token_ids) - 1) / self.seconds


class Peer(Protocol):
    """An engine with the model loaded. modes: names of ways to decode, plain decoding first."""

    name: str
    version: str
    modes: Sequence[str]

    def generate(self, mode: str, prompt_ids: Sequence[int], num_tokens: int) -> Answer:
        """Greedy, exactly so many tokens (the end of the text is banned), nothing kept from earlier calls."""

    def close(self) -> None:
        """Give everything back."""

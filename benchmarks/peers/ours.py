"""guessahead itself, through the same interface."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.peers.base import Answer
from guessahead.engines.machine import package_version
from guessahead.measure.bench.variants import PLAIN, arguments_of, runnable_drafters
from guessahead.model import LanguageModel
from guessahead.types import Gamma


class Ours:
    name = "guessahead"

    """drafters: names beside plain decoding; none = all that can run."""

    def __init__(
        self,
        lm: LanguageModel,
        draft_model: LanguageModel | None,
        gamma: Gamma,
        drafters: Sequence[str] = (),
    ) -> None:
        self.version = package_version()
        self._lm, self._gamma = lm, gamma
        names = drafters or runnable_drafters(lm, draft_model)
        self._arguments = {name: arguments_of(name, lm, draft_model) for name in (PLAIN, *names)}
        self.modes: Sequence[str] = list(self._arguments)

    def generate(self, mode: str, prompt_ids: Sequence[int], num_tokens: int) -> Answer:
        generation = self._lm.generate(
            prompt_ids,
            max_tokens=num_tokens,
            min_tokens=num_tokens,
            gamma=self._gamma,
            **self._arguments[mode],
        )
        stats = generation.stats
        return Answer(
            generation.token_ids,
            stats.prompt_seconds,
            stats.decode_seconds,
            stats.num_drafted if mode != PLAIN else None,
            stats.num_accepted if mode != PLAIN else None,
        )

    def close(self) -> None:
        """The models go with the process."""

"""Runs in the replay engine: a recording, a drafter, costs, and how fast it would have been."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from guessahead.controller.pass_costs import LearnedPassCosts
from guessahead.core.stats import Stats
from guessahead.drafters import registry
from guessahead.drafters.base import Drafter, DrafterResources, NoOptions
from guessahead.engines.replay import Recording, ReplayCosts, ReplayEngine, VirtualClock
from guessahead.runners.solo import SpeculativeDecoder
from guessahead.types import Ask, Draft, Gamma, Request, SamplingParams

# v(m) of SmolLM2-135M Q4_1 as measured, m = 1 ... 8 and 16, with straight lines between.
AVX512 = (1.0, 1.07, 1.13, 1.22, 1.27, 1.34, 1.42, 1.51, *np.linspace(1.51, 2.4, 9)[1:].tolist())
AVX2 = (1.0, 1.08, 1.20, 1.32, 1.57, 1.77, 2.0, 2.2, *np.linspace(2.2, 4.2, 9)[1:].tolist())
FLAT = (1.0,)


class WordTokenizer:
    """Every token is two letters; none ends the text."""

    eos_ids: tuple[int, ...] = ()

    def token_bytes(self, token_id: int) -> bytes:
        return b"ab"


@dataclass(frozen=True)
class DraftModelCosts:
    """A second model: c, and how often it is right (a number, or by position)."""

    c: float
    accuracy: Any
    seed: int = 1


def replay(
    recording: Recording,
    drafter: str | type[Drafter],
    gamma: Gamma,
    *,
    v: Sequence[float] = AVX2,
    model: DraftModelCosts | None = None,
    costs: LearnedPassCosts | None = None,
    options: dict[str, Any] | None = None,
    vocab_size: int = 49152,
    trace: bool = False,
    seconds: float = 1.0,
    max_draft: int | None = None,
) -> Any:
    """The Generation, in virtual time. A one-row pass takes `seconds`."""
    clock = VirtualClock()
    text = np.concatenate([recording.prompt_ids, recording.token_ids])
    engine = ReplayEngine(text, ReplayCosts(seconds, tuple(v)), clock, vocab_size=vocab_size)
    second = None
    if model is not None:
        second = ReplayEngine(
            text,
            ReplayCosts(model.c * seconds, tuple(v)),
            clock,
            vocab_size=vocab_size,
            accuracy=model.accuracy,
            seed=model.seed,
        )
    resources = DrafterResources(engine, second)
    made = (
        registry.make(drafter, options or {}, resources)
        if isinstance(drafter, str)
        else drafter(NoOptions(), resources)
    )
    if isinstance(made, Hostile):
        made.clock = clock
    decoder = SpeculativeDecoder(engine, made, WordTokenizer(), costs=costs, clock=clock)  # type: ignore[arg-type]
    request = Request(
        recording.prompt_ids,
        SamplingParams(seed=0),
        len(recording.token_ids),
        gamma,
        max_draft=max_draft,
        trace=trace,
    )
    generation = decoder.generate(request)
    assert generation.token_ids == tuple(recording.token_ids.tolist())
    return generation


def speed(stats: Stats, seconds: float = 1.0) -> float:
    """Over plain decoding, whose every token takes `seconds`."""
    return stats.num_decoded * seconds / stats.decode_seconds


class Hostile(Drafter):
    """Always wrong (the recorded tokens are below its guess), sure of itself, and it takes its time."""

    name: ClassVar[str] = "hostile"
    delay: ClassVar[float] = 0.0
    clock: VirtualClock

    def propose(self, ask: Ask) -> Draft:
        self.clock.advance(self.delay)
        stated = np.full(ask.budget, 0.99, np.float32)
        return Draft(np.full(ask.budget, 49151, np.int32), probabilities=stated)


class HostileSlow(Hostile):
    """Two pass-times a question."""

    delay: ClassVar[float] = 2.0

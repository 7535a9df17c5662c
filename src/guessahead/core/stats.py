"""Counters of one generation, and rates derived from them.

Terms: alpha = accepted / tested guesses (guesses after the first wrong one are untested). tau = tokens
per target pass, counted after the prompt's own pass. c = time of a draft pass over that of a one-row target
pass. v = time of a verifying pass over that of a one-row target pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Stats:
    """Counters of one generation; every rate is derived. Times are in seconds, without those of the caller
    between steps.

    gamma: guesses per step, or "auto" if the controller decided.
    num_tokens: tokens emitted. num_prompt_passes, num_passes: target passes of the first step (the prompt),
        and of all later ones.
    num_steps: steps after the first one. num_drafted, num_tested, num_accepted: guesses proposed, looked at
        by the target, and emitted.
    accepted_lengths[k]: steps (after the first one) in which exactly k guesses were accepted.
    tested_at[i], accepted_at[i]: guesses tested and accepted at depth i of the draft (0 = the next token).
    prompt_seconds: from the start to the first token. propose_seconds, forward_seconds, rest_seconds: the
        later steps, split into the drafter's part, the target's passes, and all else.
    bytes_per_pass: weight bytes that one target pass reads.
    num_expected: tokens of all steps after the first, as expected before their passes (`Draft.expected`);
        None if one of them had no estimate.
    num_kept_tokens: prompt tokens that were already in the cache (see `LanguageModel.session`).
    note: the variant of the drafter, if it has several ("another tokenizer: drafts as text").
    """

    drafter: str
    gamma: int | Literal["auto"]
    num_prompt_tokens: int
    num_tokens: int
    num_prompt_passes: int
    num_passes: int
    num_steps: int
    num_drafted: int
    num_tested: int
    num_accepted: int
    accepted_lengths: tuple[int, ...]
    tested_at: tuple[int, ...]
    accepted_at: tuple[int, ...]
    prompt_seconds: float
    propose_seconds: float
    forward_seconds: float
    rest_seconds: float
    bytes_per_pass: int
    num_expected: float | None = None
    num_kept_tokens: int = 0
    note: str = ""

    @property
    def num_decoded(self) -> int:
        """Tokens emitted after the first one, which comes from the prompt's pass."""
        return max(self.num_tokens - 1, 0)

    @property
    def alpha(self) -> float | None:
        """Accepted / tested guesses; None if none was tested."""
        return _ratio(self.num_accepted, self.num_tested)

    @property
    def tau(self) -> float | None:
        """Tokens per target pass after the prompt, corrections and bonuses included; plain decoding has 1."""
        return _ratio(self.num_decoded, self.num_passes)

    @property
    def alpha_at(self) -> tuple[float | None, ...]:
        """Accepted / tested at each depth of the draft."""
        return tuple(_ratio(a, t) for a, t in zip(self.accepted_at, self.tested_at, strict=True))

    @property
    def decode_seconds(self) -> float:
        """Time of all steps after the first one."""
        return self.propose_seconds + self.forward_seconds + self.rest_seconds

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens after the first one, per second of their steps."""
        return _ratio(self.num_decoded, self.decode_seconds)

    @property
    def prompt_tokens_per_second(self) -> float | None:
        """Prompt tokens read per second of the first step."""
        return _ratio(self.num_prompt_tokens - self.num_kept_tokens, self.prompt_seconds)

    @property
    def gb_per_second(self) -> float | None:
        """Weight bytes read per second of target passes, in 1e9 bytes (the limit is the memory bandwidth)."""
        return _ratio(self.bytes_per_pass * self.num_passes / 1e9, self.forward_seconds)

    @property
    def num_sweeps_saved(self) -> int:
        """The number of additional passes that plain decoding would have needed."""
        return self.num_decoded - self.num_passes

    def to_dict(self) -> dict[str, Any]:
        """Counters and rates by name, ready for JSON (a rate without data is None)."""
        counters = {key: list(v) if isinstance(v, tuple) else v for key, v in asdict(self).items()}
        rates = {name: getattr(self, name) for name in _RATES}
        return counters | rates | {"alpha_at": list(self.alpha_at)}


_RATES = (
    "num_decoded",
    "alpha",
    "tau",
    "decode_seconds",
    "tokens_per_second",
    "prompt_tokens_per_second",
    "gb_per_second",
    "num_sweeps_saved",
)


@dataclass(frozen=True, slots=True)
class StepSeconds:
    """Seconds of one step: the drafter's part, the target's pass, and all else."""

    propose: float
    forward: float
    rest: float

    @property
    def whole(self) -> float:
        return self.propose + self.forward + self.rest

    def __add__(self, other: StepSeconds) -> StepSeconds:
        return StepSeconds(self.propose + other.propose, self.forward + other.forward, self.rest + other.rest)


@dataclass(frozen=True, slots=True)
class StepCounts:
    """Counts of one step.

    num_read: committed rows of its passes. num_tokens: emitted. num_drafted, num_tested, num_accepted:
        guesses proposed, looked at by the target, and emitted. num_expected: as `Draft.expected`.
    """

    num_read: int
    num_tokens: int
    num_drafted: int
    num_tested: int
    num_accepted: int
    num_expected: float | None = None


class Recorder:
    """Records counts and times of every step of one generation; sums are computed at the end."""

    def __init__(self) -> None:
        self._counts: list[StepCounts] = []
        self._seconds: list[StepSeconds] = []
        self._num_passes: list[int] = []

    def count(self, counts: StepCounts) -> None:
        """Add a committed step; the first one is the prompt's."""
        self._counts.append(counts)

    def time(self, seconds: StepSeconds, num_passes: int) -> None:
        """Add the time of that step and its number of target passes."""
        self._seconds.append(seconds)
        self._num_passes.append(num_passes)

    def stats(
        self,
        *,
        drafter: str,
        gamma: int | Literal["auto"],
        num_prompt_tokens: int,
        bytes_per_pass: int,
        note: str = "",
    ) -> Stats:
        """The statistics so far."""
        prompt, later = self._counts[:1], self._counts[1:]
        seconds, tested = self._seconds[1:], [step.num_tested for step in later]
        lengths = [0] * (max((step.num_accepted for step in later), default=-1) + 1)
        for step in later:
            lengths[step.num_accepted] += 1
        depths = range(max(tested, default=0))
        return Stats(
            drafter=drafter,
            note=note,
            gamma=gamma,
            num_prompt_tokens=num_prompt_tokens,
            num_tokens=sum(step.num_tokens for step in self._counts),
            num_prompt_passes=sum(self._num_passes[:1]),
            num_passes=sum(self._num_passes[1:]),
            num_steps=len(later),
            num_drafted=sum(step.num_drafted for step in later),
            num_tested=sum(tested),
            num_accepted=sum(step.num_accepted for step in later),
            accepted_lengths=tuple(lengths),
            tested_at=tuple(sum(num > depth for num in tested) for depth in depths),
            accepted_at=tuple(sum(step.num_accepted > depth for step in later) for depth in depths),
            prompt_seconds=sum(each.whole for each in self._seconds[:1]),
            propose_seconds=sum(each.propose for each in seconds),
            forward_seconds=sum(each.forward for each in seconds),
            rest_seconds=sum(each.rest for each in seconds),
            bytes_per_pass=bytes_per_pass,
            num_expected=_expected(later),
            num_kept_tokens=num_prompt_tokens - sum(step.num_read for step in prompt),
        )


def _expected(steps: Sequence[StepCounts]) -> float | None:
    """Tokens expected of these steps; a step without guesses emits one."""
    gains = [each.num_expected if each.num_drafted else 0.0 for each in steps]
    return None if None in gains else len(gains) + sum(gain for gain in gains if gain is not None)


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None

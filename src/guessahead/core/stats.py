"""Counters of one generation, and what follows from them.

The words: alpha = accepted / tested guesses (guesses after the first wrong one are untested). tau = tokens
per target pass, counted after the prompt's own pass. c = time of a draft pass over that of a one-row target
pass. v = time of a verifying pass over that of a one-row target pass.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from guessahead.errors import ParameterError

if TYPE_CHECKING:
    from guessahead.types import Gamma


@dataclass(frozen=True, slots=True)
class Stats:
    """Raw counters; every rate is derived. Times are seconds, without what the reader does between steps.

    gamma: guesses per step, or "auto" where the controller decided.
    num_tokens: tokens emitted. num_prompt_passes, num_passes: target passes of the first step (the prompt),
        and of all later ones.
    num_steps: steps after the first one. num_drafted, num_tested, num_accepted: guesses proposed, looked at
        by the target, and emitted.
    accepted_lengths[k]: steps (after the first one) in which exactly k guesses were accepted.
    tested_at[i], accepted_at[i]: guesses tested and accepted at depth i of the draft (0 = the next token).
    prompt_seconds: from the start to the first token. propose_seconds, forward_seconds, rest_seconds: the
        later steps, split into the drafter's part, the target's passes, and all else.
    bytes_per_pass: weight bytes that one target pass reads.
    num_kept_tokens: tokens of the prompt that were cached already (see `LanguageModel.session`).
    note: how the drafter works here, where there are several ways ("another tokenizer: drafts as text").
    """

    drafter: str
    gamma: Gamma
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
    num_kept_tokens: int = 0
    note: str = ""

    @property
    def num_decoded(self) -> int:
        """Tokens emitted after the first one, which is the prompt pass's."""
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
        """Weight bytes read per second of target passes, in 1e9 bytes: to compare with the memory's limit."""
        return _ratio(self.bytes_per_pass * self.num_passes / 1e9, self.forward_seconds)

    @property
    def num_sweeps_saved(self) -> int:
        """How many sweeps over the weights plain decoding would have needed on top."""
        return self.num_decoded - self.num_passes

    def to_dict(self) -> dict[str, Any]:
        """Counters and rates under their names, ready for JSON (a rate without data is None)."""
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


class Recorder:
    """Counts the steps of one generation."""

    def __init__(self) -> None:
        self.num_tokens = 0
        self._num_read = self._num_prompt_passes = self._num_passes = self._num_steps = 0
        self._num_drafted = self._num_tested = 0
        self._prompt_seconds = self._propose = self._forward = self._rest = 0.0
        self._lengths: list[int] = []
        self._tested_at: list[int] = []
        self._accepted_at: list[int] = []

    def count(
        self, *, num_read: int, num_tokens: int, num_drafted: int, num_tested: int, num_accepted: int
    ) -> None:
        """One step: committed rows, tokens emitted; guesses proposed, tested, and accepted (and emitted)."""
        first = self.num_tokens == 0
        self.num_tokens += num_tokens
        if first:
            self._num_read = num_read
            return
        self._num_steps += 1
        self._num_drafted += num_drafted
        self._num_tested += num_tested
        for counts, size in ((self._lengths, num_accepted + 1), (self._tested_at, num_tested)):
            counts.extend([0] * (size - len(counts)))
        self._accepted_at.extend([0] * (len(self._tested_at) - len(self._accepted_at)))
        self._lengths[num_accepted] += 1
        for depth in range(num_tested):
            self._tested_at[depth] += 1
            self._accepted_at[depth] += depth < num_accepted

    def time(self, seconds: StepSeconds, num_passes: int) -> None:
        """The times and target passes of the step; the first call is the prompt's."""
        if self._num_prompt_passes == 0:
            self._num_prompt_passes = num_passes
            self._prompt_seconds = seconds.whole
            return
        self._num_passes += num_passes
        self._propose += seconds.propose
        self._forward += seconds.forward
        self._rest += seconds.rest

    def stats(
        self, *, drafter: str, gamma: Gamma, num_prompt_tokens: int, bytes_per_pass: int, note: str = ""
    ) -> Stats:
        """Everything counted so far."""
        return Stats(
            drafter=drafter,
            note=note,
            gamma=gamma,
            num_prompt_tokens=num_prompt_tokens,
            num_tokens=self.num_tokens,
            num_prompt_passes=self._num_prompt_passes,
            num_passes=self._num_passes,
            num_steps=self._num_steps,
            num_drafted=self._num_drafted,
            num_tested=self._num_tested,
            num_accepted=sum(self._accepted_at),
            accepted_lengths=tuple(self._lengths),
            tested_at=tuple(self._tested_at),
            accepted_at=tuple(self._accepted_at),
            prompt_seconds=self._prompt_seconds,
            propose_seconds=self._propose,
            forward_seconds=self._forward,
            rest_seconds=self._rest,
            bytes_per_pass=bytes_per_pass,
            num_kept_tokens=num_prompt_tokens - self._num_read,
        )


def predict_tau(alpha: float, gamma: int) -> float:
    """Expected tokens per step if every guess is right with probability alpha, independently.

    (1 - alpha^(gamma+1)) / (1 - alpha): Leviathan, Kalman, Matias 2023, equation 1.
    """
    if not 0.0 <= alpha <= 1.0 or gamma < 0:
        raise ParameterError(f"alpha must be in [0, 1] and gamma at least 0, not {alpha} and {gamma}")
    return float(gamma + 1) if alpha == 1.0 else (1.0 - alpha ** (gamma + 1)) / (1.0 - alpha)


def predict_speedup(alpha: float, gamma: int, c: float, v: float) -> float:
    """Expected speed over plain decoding: tau / (gamma * c + v).

    c: time of a draft pass over that of a one-row target pass. v: time of a target pass of gamma + 1 rows
    over that of one row. (Leviathan et al. 2023, theorem 3.8, has v = 1.)
    """
    if c < 0.0 or v <= 0.0:
        raise ParameterError(f"c must be at least 0 and v above 0, not {c} and {v}")
    return predict_tau(alpha, gamma) / (gamma * c + v)


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None

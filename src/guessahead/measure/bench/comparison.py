"""Comparison of plain decoding and guessing on one request: tokens and times."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

from guessahead.core.rejection import REJECTION
from guessahead.core.sampling import is_greedy
from guessahead.core.stats import Stats
from guessahead.errors import ParameterError
from guessahead.measure.formulas import predict_tau
from guessahead.types import SamplingParams

if TYPE_CHECKING:
    from guessahead.model import LanguageModel, Prompt
    from guessahead.types import Chunk, Generation

_NO_DRAFTING = ("drafter", "draft_model", "drafter_options", "gamma", "max_draft", "trace")

# Called with (plain?, chunk) for every chunk of the first round.
Watch = Callable[[bool, "Chunk"], None]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Interleaved rounds of one request. untimed: further runs, whose tokens must be the same."""

    plain: tuple[Generation, ...]
    speculative: tuple[Generation, ...]
    untimed: tuple[Generation, ...] = ()

    @property
    def first_difference(self) -> int | None:
        """Index of the first token that differs between any two of the runs; None if they are identical.

        If only the text or its end differs, this is the number of tokens.
        """
        reference = self.plain[0]
        found = [_difference(reference, other) for other in (*self.plain, *self.speculative, *self.untimed)]
        return min((index for index in found if index is not None), default=None)

    @property
    def identical(self) -> bool:
        return self.first_difference is None

    @property
    def num_tokens(self) -> int:
        """Tokens of the plain answer."""
        return len(self.plain[0].token_ids)

    @property
    def num_identical(self) -> int:
        """Tokens before the first difference."""
        return self.num_tokens if self.first_difference is None else self.first_difference

    @property
    def plain_tokens_per_second(self) -> float | None:
        return _median_rate(self.plain)

    @property
    def tokens_per_second(self) -> float | None:
        return _median_rate(self.speculative)

    @property
    def ratio(self) -> float | None:
        """Speed with guessing over speed of plain decoding, of the medians over the rounds."""
        return _over(self.tokens_per_second, self.plain_tokens_per_second)

    @property
    def prediction(self) -> Prediction | None:
        return predict(self.plain[0].stats, self.speculative[0].stats)

    @property
    def verdict(self) -> str:
        if self.first_difference is None:
            return f"identical: yes ({self.num_tokens}/{self.num_tokens} tokens)"
        where = f"first difference at token {self.first_difference + 1}"
        return f"identical: NO ({self.num_identical}/{self.num_tokens} tokens; {where})"

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON. first_difference is an index from 0."""
        prediction = self.prediction
        return {
            "identical": self.identical,
            "num_tokens": self.num_tokens,
            "num_identical": self.num_identical,
            "first_difference": self.first_difference,
            "num_rounds": len(self.plain),
            "plain_tokens_per_second": self.plain_tokens_per_second,
            "tokens_per_second": self.tokens_per_second,
            "ratio": self.ratio,
            "c": prediction and prediction.c,
            "v": prediction and prediction.v,
            "predicted_tau": prediction and prediction.tau,
            "predicted_ratio": prediction and prediction.ratio,
        }


def compare(
    lm: LanguageModel, prompt: Prompt, arguments: dict[str, Any], *, num_rounds: int = 1, watch: Watch
) -> Comparison:
    """Run plain decoding and the given arguments alternately. Without a seed, all runs share a fresh one.

    Raises ParameterError if the texts may differ by design: acceptance "rejection" when sampling.
    """
    if arguments.get("acceptance") == REJECTION and not _is_greedy(arguments):
        raise ParameterError(
            "acceptance 'rejection' keeps the distribution of the text, not the text itself, so there is "
            "nothing to compare: use acceptance 'identical'"
        )
    plain: list[Generation] = []
    speculative: list[Generation] = []
    shared = {name: value for name, value in arguments.items() if name not in _NO_DRAFTING}
    for index in range(num_rounds):
        show = watch if index == 0 else _silent
        plain.append(_run(lm, prompt, shared | {"drafter": "none"}, partial(show, True)))
        shared, arguments = ({"seed": plain[0].seed} | given for given in (shared, arguments))
        speculative.append(_run(lm, prompt, arguments, partial(show, False)))
    return Comparison(tuple(plain), tuple(speculative))


@dataclass(frozen=True, slots=True)
class Prediction:
    """The speed-up expected from the guesses' probabilities and the measured costs.

    c: time per guess, v: time of a verifying pass, both over that of a plain pass, as measured. ratio: tau
    over the time of a step (`StepCosts`).
    """

    tau: float
    c: float
    v: float
    ratio: float


@dataclass(frozen=True, slots=True)
class StepCosts:
    """What a step takes more than one of plain decoding, over the time of that one, as measured.

    rows: its pass. drafting: the drafters. handling: all else. The speed-up is tau / (1 + rows + drafting +
    handling).
    """

    rows: float
    drafting: float
    handling: float

    @classmethod
    def of(cls, plain: Stats, ours: Stats) -> StepCosts | None:
        """None if one of the two has no steps after the prompt's."""
        if not plain.num_steps or not ours.num_steps or not plain.decode_seconds:
            return None
        unit = plain.decode_seconds / plain.num_steps
        rows, drafting, handling = (
            (getattr(ours, part) / ours.num_steps - getattr(plain, part) / plain.num_steps) / unit
            for part in ("forward_seconds", "propose_seconds", "rest_seconds")
        )
        return cls(rows, drafting, handling)

    @classmethod
    def average(
        cls, each: Iterable[StepCosts | None], mean: Callable[[list[float]], float]
    ) -> StepCosts | None:
        """Part by part, of those that are known; None if none is."""
        known = [(costs.rows, costs.drafting, costs.handling) for costs in each if costs is not None]
        return cls(*(mean(list(part)) for part in zip(*known, strict=True))) if known else None

    @property
    def whole(self) -> float:
        """The time of a step over that of a plain one."""
        return 1.0 + self.rows + self.drafting + self.handling


def predict(plain: Stats, ours: Stats) -> Prediction | None:
    """The prediction; None if a figure was not measured."""
    tau = predicted_tau(ours)
    pass_seconds = _over(plain.forward_seconds, plain.num_passes)
    verify_seconds = _over(ours.forward_seconds, ours.num_passes)
    costs = StepCosts.of(plain, ours)
    if tau is None or costs is None or not pass_seconds or verify_seconds is None:
        return None
    c = (_over(ours.propose_seconds, ours.num_drafted) or 0.0) / pass_seconds
    return Prediction(tau, c, verify_seconds / pass_seconds, tau / costs.whole)


def predicted_tau(stats: Stats) -> float | None:
    """Expected tokens per step; None if nothing was guessed.

    The policy's expectation, from the path probabilities of the guesses before each pass. Without one (gamma
    is fixed), as if every guess were right with probability alpha, independently: steps without a guess emit
    one token, and the others are assumed to have their mean length.
    """
    if stats.alpha is None or not stats.num_steps:
        return None
    if stats.num_expected is not None:
        return stats.num_expected / stats.num_steps
    num_drafting = stats.tested_at[0]  # a draft's first guess is always tested
    mean_length = stats.num_drafted / num_drafting
    low = math.floor(mean_length)
    part = mean_length - low
    drafting = (1 - part) * predict_tau(stats.alpha, low) + part * predict_tau(stats.alpha, low + 1)
    share = num_drafting / stats.num_steps
    return share * drafting + (1 - share)


def _is_greedy(arguments: dict[str, Any]) -> bool:
    given = {name: arguments[name] for name in ("temperature", "top_k") if name in arguments}
    return is_greedy(SamplingParams(**given))


def _run(
    lm: LanguageModel, prompt: Prompt, arguments: dict[str, Any], show: Callable[[Chunk], None]
) -> Generation:
    with lm.stream(prompt, **arguments) as stream:
        for chunk in stream:
            show(chunk)
        return stream.result


def _silent(plain: bool, chunk: Chunk) -> None:
    """The callback of later rounds, which are not shown."""


def _difference(one: Generation, other: Generation) -> int | None:
    for index, (a, b) in enumerate(zip(one.token_ids, other.token_ids, strict=False)):
        if a != b:
            return index
    same = (one.token_ids, one.text, one.finish_reason) == (other.token_ids, other.text, other.finish_reason)
    return None if same else min(len(one.token_ids), len(other.token_ids))


def _median_rate(generations: Sequence[Generation]) -> float | None:
    rates = [generation.stats.tokens_per_second for generation in generations]
    known = [rate for rate in rates if rate is not None]
    return median(known) if known else None


def _over(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else part / whole

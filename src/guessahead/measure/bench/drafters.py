"""`guessahead bench`: plain decoding and every drafter, alternately, on each prompt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import fmean, geometric_mean, median
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from guessahead.measure.bench.comparison import Comparison, StepCosts, predict, predicted_tau
from guessahead.measure.bench.variants import PLAIN

if TYPE_CHECKING:
    from guessahead.measure.bench.workload import Task
    from guessahead.model import LanguageModel
    from guessahead.types import Generation

_AGAIN: Final = "none, again"
SAMPLED: Final = {"temperature": 0.8, "top_p": 0.95, "seed": 1}
ALL: Final = "all"

# Number of rows -> time of a pass over that of one row.
V = Mapping[int, float]


@dataclass(frozen=True, slots=True)
class Result:
    """All runs of one prompt by one drafter, and those of plain decoding in the same rounds.

    pass_rows: rows of a pass -> number of steps (of an untimed run).
    sampled: its text differs from plain decoding's by design, and is not compared.
    """

    task: Task
    drafter: str
    comparison: Comparison
    pass_rows: Mapping[int, int]
    sampled: bool = False

    @property
    def runs(self) -> Sequence[Generation]:
        return self.comparison.speculative

    @property
    def identical(self) -> bool | None:
        """Whether the text is that of plain decoding; None if it need not be."""
        return None if self.sampled else self.comparison.identical

    @property
    def ratio(self) -> float | None:
        return 1.0 if self.drafter == PLAIN else self.comparison.ratio

    @property
    def first_token_seconds(self) -> float:
        return median(run.stats.prompt_seconds for run in self.runs)

    @property
    def c(self) -> float | None:
        """Time per guess over that of a plain pass: the median of the rounds."""
        pairs = zip(self.comparison.plain, self.runs, strict=True)
        found = [predict(plain.stats, ours.stats) for plain, ours in pairs]
        known = [each.c for each in found if each is not None]
        return median(known) if known else None

    @property
    def costs(self) -> StepCosts | None:
        """What a step takes more than a plain one: the medians of the rounds."""
        if self.drafter == PLAIN:
            return None
        pairs = zip(self.comparison.plain, self.runs, strict=True)
        return StepCosts.average((StepCosts.of(plain.stats, ours.stats) for plain, ours in pairs), median)

    @property
    def predicted_tau(self) -> float | None:
        return predicted_tau(self.runs[0].stats)

    def predicted_ratio(self, v: V) -> float | None:
        """Predicted tau over the predicted cost of a step: drafting and handling as measured, passes by v."""
        tau, costs = self.predicted_tau, self.costs
        if tau is None or costs is None or not self.pass_rows:
            return None
        known = sorted(v)
        passes = np.interp(list(self.pass_rows), known, [v[m] for m in known])
        rows = float(np.average(passes, weights=list(self.pass_rows.values()))) - 1.0
        plain = self.comparison.plain[0].stats
        return tau / replace(costs, rows=rows * plain.forward_seconds / plain.decode_seconds).whole

    def to_dict(self, v: V) -> dict[str, Any]:
        """A row of the JSON document (benchmarks/README.md describes them)."""
        stats = self.runs[0].stats
        return {
            "prompt_id": self.task.prompt_id,
            "category": self.task.category,
            "drafter": self.drafter,
            "num_tokens": len(self.runs[0].token_ids),
            "tokens_per_second": self.comparison.tokens_per_second,
            "ratio_to_plain": self.ratio,
            "alpha": stats.alpha,
            "tau": stats.tau,
            "identical": self.identical,
            "first_difference": None if self.sampled else self.comparison.first_difference,
            "num_prompt_tokens": self.runs[0].num_prompt_tokens,
            "first_token_seconds": self.first_token_seconds,
            "gb_per_second": stats.gb_per_second,
            "c": self.c,
            "lost": _parts(self.costs),
            "predicted_tau": self.predicted_tau,
            "predicted_ratio": self.predicted_ratio(v),
        }


@dataclass(slots=True)
class Report:
    """All measurements. nulls: plain decoding against plain decoding, one for each prompt."""

    results: list[Result] = field(default_factory=list)
    nulls: list[Result] = field(default_factory=list)

    def to_dict(self, v: V) -> dict[str, Any]:
        """The document, without provenance and the passes' times."""
        return {
            "benchmark": "drafters",
            "identical": _identical(self.results),
            "rows": [result.to_dict(v) for result in self.results],
            "categories": self._categories(v),
            "drafters": [self._summary(name, v) for name in self._drafters()],
            "null": self._null(),
        }

    def _drafters(self) -> list[str]:
        return list(dict.fromkeys(result.drafter for result in self.results))

    def _categories(self, v: V) -> list[dict[str, Any]]:
        """Geometric means over the prompts of a category, and over all ("all")."""
        names = dict.fromkeys(result.task.category for result in self.results)
        found = []
        for category in (*names, ALL):
            for drafter in self._drafters():
                members = [
                    r for r in self.results if r.drafter == drafter and category in (r.task.category, ALL)
                ]
                found.append(
                    {
                        "category": category,
                        "drafter": drafter,
                        "num_prompts": len(members),
                        "tokens_per_second": mean(r.comparison.tokens_per_second for r in members),
                        "ratio_to_plain": mean(r.ratio for r in members),
                        "predicted_ratio": mean(r.predicted_ratio(v) for r in members),
                    }
                )
        return found

    def _summary(self, drafter: str, v: V) -> dict[str, Any]:
        """One drafter over all prompts: pooled counts, geometric means of rates and ratios."""
        members = [result for result in self.results if result.drafter == drafter]
        stats = [result.runs[0].stats for result in members]

        def pooled(part: str, whole: str) -> float | None:
            below = sum(getattr(each, whole) for each in stats)
            return sum(getattr(each, part) for each in stats) / below if below else None

        return {
            "drafter": drafter,
            "alpha": pooled("num_accepted", "num_tested"),
            "tau": pooled("num_decoded", "num_passes"),
            "c": mean(result.c for result in members),
            "tokens_per_second": mean(result.comparison.tokens_per_second for result in members),
            "ratio_to_plain": mean(result.ratio for result in members),
            "predicted_ratio": mean(result.predicted_ratio(v) for result in members),
            "lost": _parts(StepCosts.average((result.costs for result in members), fmean)),
            "gb_per_second": mean(each.gb_per_second for each in stats),
            "first_token_seconds": mean(result.first_token_seconds for result in members),
            **_identical(members),
        }

    def _null(self) -> dict[str, Any]:
        ratios = {null.task.prompt_id: null.comparison.ratio for null in self.nulls}
        known = [ratio for ratio in ratios.values() if ratio is not None]
        return {
            "ratio_to_plain": mean(known),
            "lowest": min(known, default=None),
            "highest": max(known, default=None),
            "rows": [{"prompt_id": name, "ratio_to_plain": ratio} for name, ratio in ratios.items()],
        }


def _parts(costs: StepCosts | None) -> dict[str, float] | None:
    """Ready for JSON."""
    return None if costs is None else asdict(costs)


def _identical(results: Sequence[Result]) -> dict[str, int]:
    """Whether all rows that are compared are identical."""
    known = [result.identical for result in results if result.identical is not None]
    return {"num_identical": sum(known), "num_rows": len(known)}


def mean(values: Iterable[float | None]) -> float | None:
    """Geometric mean of the values above 0; None if there are none."""
    known = [value for value in values if value]
    return geometric_mean(known) if known else None


def run_task(
    lm: LanguageModel,
    task: Task,
    variants: Mapping[str, dict[str, Any]],
    num_rounds: int,
    sampled: Collection[str] = (),
) -> tuple[list[Result], Result]:
    """One prompt: an untimed run of each variant, then `num_rounds` rounds of all of them alternately.

    variants, sampled: see `run`. Plain decoding runs twice, the second time as the null; each round begins
        with a different variant. Returns the result of each variant, and the null.
    """
    every = {PLAIN: variants[PLAIN], _AGAIN: variants[PLAIN], **variants}
    warm = {name: lm.generate(task.prompt, **arguments, trace=True) for name, arguments in every.items()}
    runs: dict[str, list[Generation]] = {name: [] for name in every}
    order = list(every)
    for index in range(num_rounds):
        start = index % len(order)
        for name in (*order[start:], *order[:start]):
            runs[name].append(lm.generate(task.prompt, **every[name]))

    def result(name: str, drafter: str) -> Result:
        comparison = Comparison(tuple(runs[PLAIN]), tuple(runs[name]), (warm[PLAIN], warm[name]))
        return Result(task, drafter, comparison, _pass_rows(warm[name]), drafter in sampled)

    return [result(name, name) for name in every if name != _AGAIN], result(_AGAIN, PLAIN)


def _pass_rows(generation: Generation) -> Mapping[int, int]:
    """Rows of the passes after the prompt's."""
    assert generation.trace is not None
    return Counter(len(step["rows"]) for step in generation.trace["steps"][1:])


def run(
    lm: LanguageModel,
    tasks: Sequence[Task],
    variants: Mapping[str, dict[str, Any]],
    *,
    num_rounds: int,
    progress: Callable[[str], None],
    sampled: Collection[str] = (),
) -> Report:
    """All prompts. variants: drafter -> arguments of `LanguageModel.generate`; PLAIN is among them.

    sampled: the drafters whose texts may differ from plain decoding's (see `sampled_drafters`).
    """
    report = Report()
    for index, task in enumerate(tasks):
        progress(f"{index + 1}/{len(tasks)} {task.prompt_id}")
        results, null = run_task(lm, task, variants, num_rounds, sampled)
        report.results += results
        report.nulls.append(null)
    return report

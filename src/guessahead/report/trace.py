"""The trace file: written by `guessahead generate --trace`, read by `report` and `predict --from`.

A JSON object. Its keys are stable; `version` counts incompatible changes, and unknown keys are ignored.

version: 1.
model, drafter, gamma, seed, prompt_token_ids, finish_reason, steps: see guessahead.core.trace.
tokens: the text of every token that occurs, by id. A token whose bytes are not text on their own (a part of
    a character) is {"hex": "e29c"} instead.
control_token_ids: the ids of control tokens (`tokens` has their names).
stats: guessahead.core.stats.Stats.to_dict(). predicted_tau: tokens that were expected of a pass, or null.
plain, comparison: null, or with --compare the statistics of plain decoding (as in `stats`), and
    guessahead.measure.bench.comparison.Comparison.to_dict().
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from guessahead.errors import ParameterError
from guessahead.files import read_text

if TYPE_CHECKING:
    from guessahead.measure.bench.comparison import Comparison
    from guessahead.model import LanguageModel
    from guessahead.text.tokenizer import Tokenizer
    from guessahead.types import Gamma, Generation

VERSION: Final = 1
KINDS: Final = ("plain", "correction", "bonus", "cut")
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Seconds:
    """The parts of the time of a step."""

    propose: float
    forward: float
    rest: float

    @property
    def total(self) -> float:
        return self.propose + self.forward + self.rest


@dataclass(frozen=True, slots=True)
class Step:
    """One step. guesses, parents, drafters, confidence: of the draft, node by node (parent -1: the text).

    path: accepted nodes. token_ids, origins: the emitted tokens, and the drafter of each.
    num_committed_rows: rows of the pass that were not guesses.
    reasons: the controller's reasons, as text; empty if the length was fixed.
    """

    guesses: tuple[int, ...]
    parents: tuple[int, ...]
    drafters: tuple[str, ...]
    confidence: tuple[float, ...] | None
    path: tuple[int, ...]
    token_ids: tuple[int, ...]
    origins: tuple[str, ...]
    kind: str
    num_committed_rows: int
    seconds: Seconds
    reasons: tuple[str, ...] = ()

    @property
    def num_rows(self) -> int:
        return self.num_committed_rows + len(self.guesses)


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace, read and validated. name: for headings. pieces: the bytes of each token.

    stats, plain, comparison: as written; a figure that is missing there is unknown.
    """

    name: str
    model: str
    drafter: str
    gamma: Gamma
    finish_reason: str
    prompt_token_ids: tuple[int, ...]
    steps: tuple[Step, ...]
    pieces: Mapping[int, bytes]
    control_token_ids: frozenset[int]
    stats: Mapping[str, Any]
    predicted_tau: float | None = None
    plain: Mapping[str, Any] = field(default_factory=dict)
    comparison: Mapping[str, Any] = field(default_factory=dict)

    @property
    def num_tokens(self) -> int:
        return sum(len(step.token_ids) for step in self.steps)

    @property
    def later_steps(self) -> tuple[Step, ...]:
        """All steps but the first, whose pass is the prompt's."""
        return self.steps[1:]


def trace_document(
    lm: LanguageModel, generation: Generation, comparison: Comparison | None = None
) -> dict[str, Any]:
    """The content of a trace file. Raises ParameterError for a generation without trace=True."""
    from guessahead.measure.bench.comparison import predicted_tau

    if generation.trace is None:
        raise ParameterError("this generation has no trace: make it with trace=True")
    trace = generation.trace
    token_ids = set(trace["prompt_token_ids"])
    for step in trace["steps"]:
        token_ids |= {*step["draft"]["token_ids"], *step["token_ids"]}
        token_ids |= {token_id for token_id in step["chosen"] if token_id >= 0}
    control = [each for each in sorted(token_ids) if not lm.tokenizer.token_bytes(each)]
    return {
        "version": VERSION,
        **trace,
        "tokens": {str(each): _spelled(lm.tokenizer, each) for each in sorted(token_ids)},
        "control_token_ids": control,
        "stats": generation.stats.to_dict(),
        "predicted_tau": predicted_tau(generation.stats),
        "plain": comparison and comparison.plain[0].stats.to_dict(),
        "comparison": comparison and comparison.to_dict(),
    }


def read_trace(path: Path) -> Trace:
    """The trace in a file. Raises ParameterError, in one line, for anything else."""
    try:
        document = json.loads(read_text(path))
    except OSError as error:
        raise ParameterError(f"{path} cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError):
        raise ParameterError(
            f"{path} is not a JSON file; a trace is what `generate --trace` writes"
        ) from None
    return parse_trace(document, path.stem)


def parse_trace(document: object, name: str) -> Trace:
    """A trace from its JSON document. Raises ParameterError naming `name` and what is wrong there."""
    reader = _Reader(document, name)
    version = reader.get(document, "version", int)
    if version != VERSION:
        reader.fail(f"has version {version}; this program reads version {VERSION}: make the trace again")
    pieces = {
        reader.number(key): reader.piece(key, value)
        for key, value in reader.get(document, "tokens", dict).items()
    }
    automatic = isinstance(document, dict) and document.get("gamma") == "auto"
    gamma: Gamma = "auto" if automatic else reader.get(document, "gamma", int)
    drafter = reader.get(document, "drafter", str)
    trace = Trace(
        name=name,
        model=reader.get(document, "model", str),
        drafter=drafter,
        gamma=gamma,
        finish_reason=reader.get(document, "finish_reason", str),
        prompt_token_ids=reader.items(document, "prompt_token_ids", int),
        steps=tuple(reader.step(each, drafter) for each in reader.get(document, "steps", list)),
        pieces=pieces,
        control_token_ids=frozenset(reader.items(document, "control_token_ids", int)),
        stats=reader.get(document, "stats", dict),
        predicted_tau=reader.optional(document, "predicted_tau", float),
        plain=reader.optional(document, "plain", dict) or {},
        comparison=reader.optional(document, "comparison", dict) or {},
    )
    reader.check_tokens(trace)
    return trace


class _Reader:
    """Reads values from a document and checks their types."""

    def __init__(self, document: object, name: str) -> None:
        self._name = name
        if not isinstance(document, dict) or "steps" not in document:
            self.fail("is not a trace of `guessahead generate --trace`")

    def fail(self, what: str) -> None:
        raise ParameterError(f"{self._name} {what}")

    def get(self, holder: object, key: str, kind: type[_Value]) -> _Value:
        value = holder.get(key) if isinstance(holder, dict) else None
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise ParameterError(f"{self._name} is a damaged trace: {key!r} is {str(value)[:40]!r}")
        return value

    def optional(self, holder: object, key: str, kind: type[_Value]) -> _Value | None:
        missing = not isinstance(holder, dict) or holder.get(key) is None
        return None if missing else self.get(holder, key, kind)

    def items(self, holder: object, key: str, kind: type[_Value]) -> tuple[_Value, ...]:
        values = self.get(holder, key, list)
        return tuple(self.get({key: value}, key, kind) for value in values)

    def number(self, text: str) -> int:
        try:
            return int(text)
        except ValueError:
            raise ParameterError(f"{self._name} is a damaged trace: {text[:40]!r} is no token id") from None

    def piece(self, key: str, value: object) -> bytes:
        """The bytes of a token."""
        try:
            if isinstance(value, dict):
                return bytes.fromhex(self.get(value, "hex", str))
            return self.get({key: value}, key, str).encode()
        except ValueError:
            raise ParameterError(f"{self._name} is a damaged trace: token {key} is {value!r}") from None

    def step(self, value: object, drafter: str) -> Step:
        draft = self.get(value, "draft", dict)
        guesses = self.items(draft, "token_ids", int)
        seconds = self.get(value, "seconds", dict)
        step = Step(
            guesses=guesses,
            parents=self.items(draft, "parents", int),
            drafters=self._list_or(draft, "origins", str, (drafter,) * len(guesses)),
            confidence=None if draft.get("confidence") is None else self.items(draft, "confidence", float),
            path=self.items(value, "path", int),
            token_ids=self.items(value, "token_ids", int),
            origins=self.items(value, "origins", str),
            kind=self.get(value, "kind", str),
            num_committed_rows=self.get(value, "num_committed_rows", int),
            seconds=Seconds(*(self.get(seconds, key, float) for key in ("propose", "forward", "rest"))),
            reasons=_reasons(value.get("why") if isinstance(value, dict) else None),
        )
        self._check(step)
        return step

    def _list_or(
        self, holder: object, key: str, kind: type[_Value], default: tuple[_Value, ...]
    ) -> tuple[_Value, ...]:
        missing = isinstance(holder, dict) and holder.get(key) is None
        return default if missing else self.items(holder, key, kind)

    def _check(self, step: Step) -> None:
        """Check that all indices that the page uses are in range."""
        num_guesses = len(step.guesses)
        right = (
            step.kind in KINDS
            and step.token_ids
            and len(step.origins) == len(step.token_ids)
            and num_guesses == len(step.parents) == len(step.drafters)
            and all(-1 <= parent < node for node, parent in enumerate(step.parents))
            and all(0 <= node < num_guesses for node in step.path)
            and (step.confidence is None or len(step.confidence) == num_guesses)
            and all(0 <= part < float("inf") for part in _parts(step.seconds))
        )
        if not right:
            self.fail("is a damaged trace: a step contradicts itself")

    def check_tokens(self, trace: Trace) -> None:
        needed = set(trace.prompt_token_ids)
        for step in trace.steps:
            needed |= {*step.guesses, *step.token_ids}
        if missing := needed - trace.pieces.keys():
            self.fail(f"is a damaged trace: the text of token {min(missing)} is missing")
        if not trace.steps:
            self.fail("is a damaged trace: it has no step")


def _reasons(why: object) -> tuple[str, ...]:
    """The controller's reasons as sentences; unexpected values are ignored."""
    if not isinstance(why, dict):
        return ()
    reasons = [f"nothing guessed: {why['plain']}"] if isinstance(why.get("plain"), str) else []
    members, candidates = why.get("members"), why.get("candidates")
    for member in members if isinstance(members, list) else []:
        if isinstance(member, dict) and member.get("decision"):
            reasons.append(f"{member.get('drafter')}: {member['decision']}")
    if isinstance(candidates, list) and candidates:
        num_chosen = sum(isinstance(each, dict) and each.get("chosen") is True for each in candidates)
        reasons.append(f"{num_chosen} of {len(candidates)} guesses were verified")
    return tuple(reasons)


def _parts(seconds: Seconds) -> Sequence[float]:
    return seconds.propose, seconds.forward, seconds.rest


def _spelled(tokenizer: Tokenizer, token_id: int) -> str | dict[str, str]:
    data = tokenizer.token_bytes(token_id) or tokenizer.token_bytes(token_id, special=True)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"hex": data.hex()}

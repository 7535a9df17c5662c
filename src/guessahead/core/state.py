"""What a running generation knows: its tokens, its text, and where it ends."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from guessahead.core import tree
from guessahead.core.logprobs import token_logprob
from guessahead.core.stats import Recorder, StepTimes
from guessahead.core.verify import cut
from guessahead.errors import PromptError, StateError
from guessahead.text.stream import StreamDecoder
from guessahead.types import Choice, Draft, Generation, Int32, SamplingParams, TokenLogprob, Verdict

if TYPE_CHECKING:
    from guessahead.engines.base import EngineInfo, PassOutput, Rows
    from guessahead.text.tokenizer import Tokenizer

TARGET = "target"
"""Origin of the tokens that the target chose and nobody guessed."""


@dataclass(frozen=True, slots=True)
class Request:
    """What to generate.

    prompt_ids: int32[n], n >= 1. params: without a seed, a fresh one is drawn. max_tokens: at least 1.
    gamma: guesses per step; None = as many as pay (see controller.py), and then at most max_draft, if given.
    stops: texts that end the generation.
    logprobs: None, or how many alternatives to report per token.
    trace: keep a record of every step (see `Run.trace`).
    acceptance: "identical" or "rejection" (see rejection.py).
    """

    prompt_ids: Int32
    params: SamplingParams
    max_tokens: int
    gamma: int | None = None
    max_draft: int | None = None
    stops: tuple[str, ...] = ()
    logprobs: int | None = None
    trace: bool = False
    acceptance: str = "identical"


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one step adds. text: may lag behind the tokens (half a character, the start of a stop string).

    origins: who guessed each token: a drafter's name, or "target".
    """

    text: str
    token_ids: tuple[int, ...]
    origins: tuple[str, ...]


class Run:
    """The state of one generation between steps. `finish_reason` is None while it goes on."""

    def __init__(
        self, request: Request, info: EngineInfo, tokenizer: Tokenizer, drafter: str, note: str = ""
    ) -> None:
        """drafter, note: its name, and a word about how it works here."""
        num_prompt = len(request.prompt_ids)
        room = info.context_length - num_prompt
        if num_prompt == 0:
            raise PromptError("the prompt is empty: it needs at least one token")
        if room < 1:
            raise PromptError(
                f"the prompt has {num_prompt} tokens and leaves no room in a context of {info.context_length}"
            )
        self.finish_reason: str | None = None
        seed = request.params.seed
        self._seed = secrets.randbits(63) if seed is None else seed
        self._params = replace(request.params, seed=self._seed)
        self.request, self._info, self._drafter, self._note = request, info, drafter, note
        self._limit = min(request.max_tokens, room)
        self._limit_reason = "length" if request.max_tokens <= room else "context"
        # Written once per position, so that views of it handed out earlier stay true.
        self._tokens = np.zeros(num_prompt + self._limit, np.int32)
        self._tokens[:num_prompt] = request.prompt_ids
        self._num_tokens = num_prompt
        self._eos_ids = tuple(tokenizer.eos_ids)
        self._text = StreamDecoder(tokenizer, request.stops)
        self._pieces: list[str] = []
        self._logprobs: list[TokenLogprob] = []
        self._steps: list[dict[str, Any]] = []
        self._recorder = Recorder()
        self._num_passes = 0
        self._chunk = Chunk("", (), ())

    @property
    def history(self) -> Int32:
        """All committed tokens, the pending one included (read-only)."""
        view = self._tokens[: self._num_tokens]
        view.setflags(write=False)
        return view

    @property
    def wants_logits(self) -> bool:
        return self.request.logprobs is not None

    @property
    def budget(self) -> int:
        """Most guesses that make sense now: a step emits one token more than it accepts guesses."""
        still_wanted = self._limit - self._num_emitted
        return min(still_wanted - 1, self._info.max_rows - 1)

    @property
    def _num_prompt(self) -> int:
        return len(self.request.prompt_ids)

    @property
    def _num_emitted(self) -> int:
        return self._num_tokens - self._num_prompt

    def choice(self) -> Choice:
        """How to choose the next token."""
        return Choice(self._params, self.history, self._num_prompt, self._eos_ids)

    def commit(self, rows: Rows, draft: Draft, full: Verdict, output: PassOutput) -> Verdict:
        """Take in the tokens of a verdict up to the one that ends the text; returns what was taken.

        The earliest event decides how the generation ends.
        """
        text, num_taken = "", 0
        while num_taken < len(full.token_ids) and self.finish_reason is None:
            text += self._take(int(full.token_ids[num_taken]))
            num_taken += 1
        if self.finish_reason in ("eos", "length", "context"):
            text += self._text.finish()
        self._pieces.append(text)
        nodes = full.path[:num_taken].tolist()
        origins = [draft.origins[node] if draft.origins else self._drafter for node in nodes]
        token_ids = full.token_ids[:num_taken].tolist()
        self._chunk = Chunk(text, tuple(token_ids), (*origins, TARGET)[:num_taken])
        first_guess = len(rows.token_ids) - len(draft)
        self._add_logprobs(token_ids, [first_guess - 1, *(first_guess + node for node in nodes)], output)
        self._recorder.count(
            num_read=first_guess,
            num_tokens=num_taken,
            num_drafted=len(draft),
            num_tested=full.num_tested if num_taken == len(full.token_ids) else num_taken,
            num_accepted=len(nodes),
        )
        self._num_passes = output.num_passes
        if self.request.trace:
            self._steps.append(_step(rows, draft, full, output, self._chunk))
        return cut(full, num_taken)

    def count(
        self,
        propose_seconds: float,
        forward_seconds: float,
        rest_seconds: float,
        why: Mapping[str, Any] | None = None,
    ) -> Chunk:
        """Note how long the step took that was just committed; returns what it adds.

        why: the controller's reasons, for the trace.
        """
        times = StepTimes(propose_seconds, forward_seconds, rest_seconds)
        self._recorder.time(times, self._num_passes)
        if self.request.trace:
            self._steps[-1]["seconds"] = {
                "propose": times.propose,
                "forward": times.forward,
                "rest": times.rest,
            }
            if why is not None:
                self._steps[-1]["why"] = why
        return self._chunk

    def generation(self) -> Generation:
        """The result, once `finish_reason` is known."""
        request = self.request
        if self.finish_reason is None:
            raise StateError("the generation has not ended yet")
        return Generation(
            text="".join(self._pieces),
            token_ids=tuple(self._tokens[self._num_prompt : self._num_tokens].tolist()),
            finish_reason=self.finish_reason,
            num_prompt_tokens=self._num_prompt,
            seed=self._seed,
            stats=self._recorder.stats(
                drafter=self._drafter,
                note=self._note,
                gamma=request.gamma,
                num_prompt_tokens=self._num_prompt,
                bytes_per_pass=self._info.bytes_per_pass,
            ),
            logprobs=tuple(self._logprobs) if self.wants_logits else None,
            trace=self.trace() if request.trace else None,
        )

    def trace(self) -> Mapping[str, Any]:
        """Every step so far, ready for JSON. The keys are stable.

        model, drafter, gamma, acceptance, seed, prompt_token_ids, finish_reason, and steps, each of them with
        draft: token_ids, parents (-1 = the last committed token), confidence and origins (or None);
        rows: the tokens of the pass: committed ones that the cache lacked, then the draft;
        num_committed_rows: how many of the rows are committed;
        chosen: the target's choice after each row, -1 where none was needed;
        path: the accepted draft nodes that were emitted; token_ids, origins: all tokens emitted, and
        who guessed each ("target": nobody);
        kind: "plain" (no guesses), "correction" (the last token replaces a wrong guess), "bonus" (all guesses
        on the path were right and the last token comes on top), "cut" (the text ended within the guesses);
        seconds: propose, forward, rest;
        why: where the controller decided: what it weighed (see controller.py).
        """
        return {
            "model": self._info.name,
            "drafter": self._drafter,
            "gamma": self.request.gamma,
            "acceptance": self.request.acceptance,
            "seed": self._seed,
            "prompt_token_ids": self.request.prompt_ids.tolist(),
            "steps": self._steps,
            "finish_reason": self.finish_reason,
        }

    def _take(self, token_id: int) -> str:
        """Commit one token; sets finish_reason if it ends the text. Returns the text that is certain now."""
        self._tokens[self._num_tokens] = token_id
        self._num_tokens += 1
        if token_id in self._eos_ids:
            self.finish_reason = "eos"
            return ""
        text = self._text.add(token_id)
        if self._text.stopped:
            self.finish_reason = "stop"
        elif self._num_emitted == self._limit:
            self.finish_reason = self._limit_reason
        return text

    def _add_logprobs(self, token_ids: list[int], rows: list[int], output: PassOutput) -> None:
        """rows[i]: the row after which token i was chosen."""
        num_top = self.request.logprobs
        if num_top is None or output.logits is None:
            return
        for token_id, row in zip(token_ids, rows, strict=False):
            self._logprobs.append(token_logprob(output.logits[row], token_id, num_top))


def _step(rows: Rows, draft: Draft, full: Verdict, output: PassOutput, chunk: Chunk) -> dict[str, Any]:
    """One entry of `Run.trace`, still without its times."""
    num_emitted = len(chunk.token_ids)
    if len(draft) == 0:
        kind = "plain"
    elif num_emitted < len(full.token_ids):
        kind = "cut"
    else:
        kind = "correction" if full.num_tested > len(full.path) else "bonus"
    return {
        "draft": {
            "token_ids": draft.token_ids.tolist(),
            "parents": tree.parents_of(draft).tolist(),
            "confidence": None if draft.confidence is None else draft.confidence.tolist(),
            "origins": list(draft.origins) if draft.origins else None,
        },
        "rows": rows.token_ids.tolist(),
        "num_committed_rows": len(rows.token_ids) - len(draft),
        "chosen": output.chosen.tolist(),
        "path": full.path[:num_emitted].tolist(),
        "token_ids": list(chunk.token_ids),
        "origins": list(chunk.origins),
        "kind": kind,
    }

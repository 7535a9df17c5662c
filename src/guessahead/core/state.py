"""The state of one generation between steps: its tokens, its text and its end."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from guessahead.core.sampling import token_logprob
from guessahead.core.stats import Recorder, StepCounts, StepSeconds
from guessahead.core.trace import Trace
from guessahead.core.verify import cut
from guessahead.errors import PromptError, StateError
from guessahead.types import ChoiceContext, Chunk, Generation

if TYPE_CHECKING:
    from guessahead.protocols import EngineInfo, Rows
    from guessahead.types import Constraint, Draft, Float32, Int32, Mask, Request, TokenLogprob, Verdict

TARGET: Final = "target"
"""The origin of tokens that were not guessed by a drafter."""


class TextStream(Protocol):
    """Converts tokens to text as they are generated (text/stream.py)."""

    @property
    def stopped(self) -> bool:
        """Whether a stop string is complete."""

    def add(self, token_id: int) -> str:
        """The text that is final now."""

    def end(self, token_id: int) -> str:
        """As `add`, of the token that ends the text."""

    def finish(self) -> str:
        """The text that was held back."""


class NoText:
    """A TextStream that makes no text, for callers that want tokens only."""

    stopped = False

    def add(self, token_id: int) -> str:
        return ""

    def end(self, token_id: int) -> str:
        return ""

    def finish(self) -> str:
        return ""


class GenerationState:
    """One generation. `finish_reason` is None until it ends."""

    def __init__(
        self,
        request: Request,
        info: EngineInfo,
        eos_ids: Sequence[int],
        text: TextStream,
        drafter: str,
        note: str = "",
        constraint: Constraint | None = None,
    ) -> None:
        """drafter, note: its name, and its variant. constraint: with nothing committed yet.

        Raises PromptError, see `Runner.stream`.
        """
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
        # Each position is written once, so that earlier views of this array stay valid.
        self._tokens = np.zeros(num_prompt + self._limit, np.int32)
        self._tokens[:num_prompt] = request.prompt_ids
        self._read_only = self._tokens.view()
        self._read_only.flags.writeable = False
        self._num_prompt = self._num_tokens = num_prompt
        self._eos_ids = tuple(eos_ids)
        self._text = text
        self._constraint = constraint
        self._pieces: list[str] = []
        self._logprobs: list[TokenLogprob] = []
        self._recorder = Recorder()
        self._trace = Trace(request, info.name, drafter, self._seed) if request.trace else None

    @property
    def history(self) -> Int32:
        """All committed tokens, the pending one included (read-only)."""
        return self._read_only[: self._num_tokens]

    @property
    def has_output(self) -> bool:
        """Whether a token has been generated."""
        return self._num_tokens > self._num_prompt

    @property
    def wants_logits(self) -> bool:
        return self.request.logprobs is not None

    @property
    def budget(self) -> int:
        """Maximum number of guesses now: a step emits one token more than it accepts guesses."""
        still_wanted = self._limit - (self._num_tokens - self._num_prompt)
        return min(still_wanted - 1, self._info.max_rows - 1)

    def context(self) -> ChoiceContext:
        """The context in which the next token is chosen."""
        return ChoiceContext(
            self._params, self.history, self._num_prompt, self._eos_ids, constraint=self._constraint
        )

    def commit(
        self,
        rows: Rows,
        draft: Draft,
        chosen: Int32,
        full: Verdict,
        logits: Mapping[int, Float32] | None,
    ) -> tuple[Verdict, Chunk]:
        """Commit the tokens of a verdict up to the one that ends the text; returns the committed part.

        chosen: the target's choices. logits: of the rows. The earliest event decides how
            the generation ends.
        """
        text, num_taken, wanted = "", 0, full.token_ids.tolist()
        masks = self._masks(wanted) if logits is not None else []
        for token_id in wanted:
            text += self._take(token_id)
            num_taken += 1
            if self.finish_reason is not None:
                break
        if self.finish_reason is not None and not self._text.stopped:
            text += self._text.finish()
        self._pieces.append(text)
        verdict = cut(full, num_taken)
        nodes = full.path[:num_taken].tolist() if len(draft) else []  # a cut verdict lacks the last of them
        first_guess = len(rows.token_ids) - len(draft)
        chunk = Chunk(text, tuple(wanted[:num_taken]), self._origins(draft, nodes)[:num_taken])
        if logits is not None and self.request.logprobs is not None:
            after = [first_guess - 1, *(first_guess + node for node in nodes)]
            for token_id, row, mask in zip(chunk.token_ids, after, masks, strict=False):
                self._logprobs.append(token_logprob(logits[row], token_id, self.request.logprobs, mask))
        num_tested = full.num_tested if num_taken == len(wanted) else num_taken
        self._recorder.count(
            StepCounts(first_guess, num_taken, len(draft), num_tested, len(nodes), draft.expected)
        )
        if self._trace is not None:
            self._trace.add(rows, draft, chosen, full, chunk)
        return verdict, chunk

    def time(self, seconds: StepSeconds, num_passes: int, why: dict[str, object] | None) -> None:
        """Record the times of the step that was just committed. why: the policy's reasons, for the trace."""
        self._recorder.time(seconds, num_passes)
        if self._trace is not None:
            self._trace.time(seconds, why)

    def generation(self) -> Generation:
        """The result. Raises StateError while `finish_reason` is None."""
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
            trace=self._trace.document(self.finish_reason) if self._trace is not None else None,
        )

    def _take(self, token_id: int) -> str:
        """Commit one token; sets finish_reason if it ends the text. Returns the text that is final now."""
        self._tokens[self._num_tokens] = token_id
        self._num_tokens += 1
        if self._constraint is not None:
            self._constraint.commit(token_id)
        if token_id in self._eos_ids:
            text = self._text.end(token_id)
            self.finish_reason = "stop" if self._text.stopped else "eos"
            return text
        text = self._text.add(token_id)
        is_complete = self._constraint is not None and self._constraint.is_complete
        if self._text.stopped or is_complete:
            self.finish_reason = "stop"
        elif self._num_tokens - self._num_prompt == self._limit:
            self.finish_reason = self._limit_reason
        return text

    def _masks(self, wanted: list[int]) -> list[Mask | None]:
        """The tokens that were allowed where each of these was chosen."""
        if self._constraint is None:
            return [None] * len(wanted)
        return [self._constraint.mask(self.history, wanted[:i]) for i in range(len(wanted))]

    def _origins(self, draft: Draft, nodes: list[int]) -> tuple[str, ...]:
        """The origins of the tokens of these nodes, and of the token after them."""
        if not nodes:
            return (TARGET,)
        named = draft.origins
        return (*(named[node] if named else self._drafter for node in nodes), TARGET)

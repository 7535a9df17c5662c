"""The step of one sequence: propose, verify, commit. The loop and the clock are in the runner.

With N committed tokens the cache holds N - 1; the last one is *pending* and enters with the next pass,
followed by the guesses. So the rows of a step are the committed tokens that the cache lacks, then the draft.
In the first step these tokens are the whole prompt, and in plain decoding the draft is always empty; neither
is a special case.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from guessahead.core.stats import StepSeconds
from guessahead.core.verify import accept
from guessahead.protocols import Rows
from guessahead.types import EMPTY_IDS, NO_DRAFT, Chunk, HiddenStates

if TYPE_CHECKING:
    from guessahead.core.state import GenerationState
    from guessahead.protocols import PassOutput, Policy, Proposer, SequenceState
    from guessahead.types import Ask, ChoiceContext, Draft, Float32, Int32, Verdict

NOTHING_YET: Final = Chunk("", (), ())
"""The output of a pass over a part of the prompt."""


class Judge(Protocol):
    """Gives the target's token after each row of a draft."""

    needs_all_logits: bool

    def chosen(self, draft: Draft, context: ChoiceContext, output: PassOutput, last: int) -> Int32:
        """int32[n + 1]: the choice after the last committed token, which is row `last`, then after each node.

        -1 where none is needed: after the first wrong guess. NOT_FINITE as in `PassOutput.chosen`.
        """


class ChooseJudge:
    """The default Judge: the result of `choose` along the draft, as in plain decoding."""

    needs_all_logits = False

    def chosen(self, draft: Draft, context: ChoiceContext, output: PassOutput, last: int) -> Int32:
        return output.chosen[last:]


CHOOSE: Final = ChooseJudge()


class StepDrafter(Protocol):
    """The part of a drafter that a step uses (drafters/base.py)."""

    needs_hidden: tuple[int, ...]

    def observe(self, verdict: Verdict, hidden: HiddenStates | None) -> None: ...


class HiddenRecorder:
    """A StepDrafter that makes no guesses and stores the hidden states of all positions, in order."""

    def __init__(self, layers: tuple[int, ...]) -> None:
        self.needs_hidden = layers
        self.states: list[HiddenStates] = []

    def observe(self, verdict: Verdict, hidden: HiddenStates | None) -> None:
        if hidden is not None:
            self.states.append(hidden)


class Step:
    """The steps of one sequence; each calls `ask` until it returns None, then `rows`, `take`, `learn`."""

    def __init__(
        self,
        state: GenerationState,
        sequence: SequenceState,
        drafter: StepDrafter,
        policy: Policy,
        judge: Judge = CHOOSE,
    ) -> None:
        self._state, self._sequence = state, sequence
        self._drafter, self._policy, self._judge = drafter, policy, judge
        self._context: ChoiceContext | None = None  # of the current step
        self._draft = NO_DRAFT
        self._rows: Rows | None = None
        self._num_cached = 0  # tokens in the cache before the pass
        self._num_passes = 0
        self._seconds: StepSeconds | None = None  # of passes over earlier parts of the prompt
        self._carried = 0.0  # what the last `learn` took
        self._verdict: Verdict | None = None
        self._hidden: HiddenStates | None = None

    @property
    def history(self) -> Int32:
        """All committed tokens."""
        return self._state.history

    def ask(self) -> tuple[Proposer, Ask] | None:
        """The next drafter to call for guesses, and its request; None = the draft is ready.

        The first step makes no guesses, so the first token comes as early as in plain decoding.
        """
        if self._context is None:
            self._context = self._state.context()
            if not self._state.has_output:
                return None
            self._policy.begin(self._context, self._state.budget)
        elif not self._state.has_output:
            return None
        asked = self._policy.ask()
        if asked is None:
            self._draft = self._policy.draft()
        return asked

    def answer(self, draft: Draft, seconds: float) -> None:
        """Take the guesses for the last `ask`, without those that a grammar refuses, and their time."""
        constraint = self._context.constraint if self._context is not None else None
        if constraint is not None:
            draft = constraint.admitted(draft)
        self._policy.answer(draft, seconds)

    def rows(self, max_rows: int | None = None) -> Rows:
        """The rows of the next pass: the committed tokens that the cache lacks, then the draft.

        If they are more than max_rows, the first part of the committed tokens.
        """
        context, draft, length = self._context, self._draft, self._sequence.length
        assert context is not None, "ask comes before rows"
        fresh = context.history[length:]
        self._num_cached = length
        want_hidden = self._drafter.needs_hidden
        if max_rows is not None and len(fresh) + len(draft) > max_rows:
            part = fresh[: min(max_rows, len(fresh) - 1)]
            self._rows = Rows(self._sequence, part, want_hidden=want_hidden)
            return self._rows
        last = len(fresh) - 1
        parents = None
        if draft.parents is not None:
            # tree.ROOT, which is -1, becomes the row of the last committed token.
            parents = np.concatenate(
                [np.arange(-1, last, dtype=np.int32), draft.parents + np.int32(len(fresh))]
            )
        every = draft.distributions is not None or self._judge.needs_all_logits
        self._rows = Rows(
            sequence=self._sequence,
            token_ids=np.concatenate([fresh, draft.token_ids]) if len(draft) else fresh,
            parents=parents,
            context=context,
            choose_from=last,
            want_logits="all" if every else "path" if self._state.wants_logits else "none",
            want_hidden=want_hidden,
        )
        return self._rows

    def take(self, output: PassOutput) -> Chunk:
        """Verify the draft by the pass; commit the accepted guesses and the target's next token.

        Raises NotFiniteError if the logits after the last committed token are not finite.
        """
        rows, context, draft, state = self._rows, self._context, self._draft, self._state
        assert rows is not None
        assert context is not None
        self._num_passes += output.num_passes
        if rows.context is None:
            self._note_hidden(output.hidden, len(rows.token_ids), EMPTY_IDS)
            return NOTHING_YET
        first_guess = len(rows.token_ids) - len(draft)
        chosen = self._judge.chosen(draft, context, output, first_guess - 1)
        full = accept(draft, chosen)
        self._verdict, chunk = state.commit(rows, draft, chosen, full, output.logits)
        path = self._verdict.path
        if len(draft):
            self._sequence.keep(path + np.int32(first_guess) if len(path) else EMPTY_IDS)
        self._note_hidden(output.hidden, first_guess, path)
        return chunk

    def learn(self, seconds: StepSeconds) -> None:
        """Pass the verdict to drafter and policy, and record the times; then the next step begins.

        After a pass over a part of the prompt there is no verdict yet.
        """
        if self._seconds is not None:
            seconds = self._seconds + seconds
        if self._carried:
            seconds = StepSeconds(seconds.propose, seconds.forward, seconds.rest + self._carried)
            self._carried = 0.0
        verdict, rows, context = self._verdict, self._rows, self._context
        if verdict is None or rows is None or context is None:
            self._seconds = seconds
            return
        self._drafter.observe(verdict, self._hidden)
        self._policy.observe(
            verdict, len(rows.token_ids), len(context.history), seconds.forward, seconds.whole
        )
        self._state.time(seconds, self._num_passes, self._policy.why() if self._state.request.trace else None)
        self._verdict = self._context = self._hidden = self._seconds = None
        self._draft, self._num_passes = NO_DRAFT, 0

    def carry(self, seconds: float) -> None:
        """Add the time that `learn` took to the next step."""
        self._carried = seconds

    def _note_hidden(self, hidden: Mapping[int, Float32] | None, first_guess: int, path: Int32) -> None:
        """Keep the hidden states of the committed rows and of the guesses on the path."""
        if hidden is None:
            return
        if any(len(states) != first_guess + len(path) for states in hidden.values()):
            kept = [*range(first_guess), *(first_guess + node for node in path.tolist())]
            hidden = {layer: states.take(kept, axis=0) for layer, states in hidden.items()}
        before = self._hidden
        if before is None:
            self._hidden = HiddenStates(self._num_cached, hidden)
            return
        joined = {layer: np.concatenate([before.layers[layer], states]) for layer, states in hidden.items()}
        self._hidden = HiddenStates(before.first, joined)

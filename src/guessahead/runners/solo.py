"""The loop: propose, verify, accept, commit.

With N committed tokens the cache holds N - 1; the last one is *pending* and is fed by the next pass, with
the guesses behind it. So a step is one pass over: the committed tokens that the cache lacks, then the draft.
For the first step those are the whole prompt, and for plain decoding the draft is always empty; neither is a
case of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from guessahead.controller.base import FixedGamma, Policy
from guessahead.controller.controller import MAX_NODES, Controller
from guessahead.controller.pass_costs import PassCosts
from guessahead.core.rejection import REJECTION, HashDraws, equip, settle
from guessahead.core.sampling import is_greedy
from guessahead.core.state import Chunk, Request, Run
from guessahead.core.verify import accept
from guessahead.engines.base import Rows
from guessahead.types import Choice, Draft, Float32, Generation, Int32

if TYPE_CHECKING:
    from guessahead.core.rejection import Draws
    from guessahead.drafters.base import Drafter
    from guessahead.engines.base import Engine, SequenceState
    from guessahead.runners.prefix import KeptPrefix
    from guessahead.text.tokenizer import Tokenizer


class SpeculativeDecoder:
    """Generates one text at a time with a target model and a drafter.

    The text is the target's own: it does not depend on the drafter, on gamma, or on how many guesses were
    right (with acceptance "rejection", its law does not). `tokenizer` turns tokens into text and knows which
    tokens end it.
    """

    def __init__(
        self,
        engine: Engine,
        drafter: Drafter,
        tokenizer: Tokenizer,
        *,
        costs: PassCosts | None = None,
        clock: Callable[[], float] = perf_counter,
        prefix: KeptPrefix | None = None,
        draws: Callable[[Choice], Draws] = HashDraws,
    ) -> None:
        """costs: what passes of this engine cost, shared by its generations; None = learn from nothing.

        clock: seconds, for all that is measured here; the replay engine has a virtual one.
        prefix: where the cache comes from and goes to; None = every generation begins with an empty one.
        draws: who draws lots for acceptance "rejection", made from the first choice of each generation.
        """
        self._engine = engine
        self._drafter = drafter
        self._tokenizer = tokenizer
        self._costs = PassCosts(engine.info.max_rows) if costs is None else costs
        self._clock = clock
        self._prefix = prefix
        self._draws = draws

    def generate(self, request: Request) -> Generation:
        """The finished generation. Errors: as `stream`."""
        steps = self.stream(request)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                generation: Generation = end.value
                return generation

    def stream(self, request: Request) -> Generator[Chunk, None, Generation]:
        """One chunk per step as soon as it is certain; the generator's return value is the Generation.

        Closing the generator early, at any chunk, frees the cache and ends the drafter. Raises at once
        PromptError for an empty prompt or one that fills the context, ParameterError for a drafter that the
        request's way of acceptance cannot serve.
        """
        run = Run(request, self._engine.info, self._tokenizer, self._drafter.name, self._drafter.note)
        by_chance = request.acceptance == REJECTION and not is_greedy(request.params)
        draws = self._draws(run.choice()) if by_chance else None
        equip(self._drafter, draws)
        return self._steps(run, draws)

    def _policy(self, request: Request) -> Policy:
        """Who decides how much to guess."""
        if request.gamma is not None or not self._drafter.members:
            return FixedGamma(self._drafter, request.gamma or 0)
        return Controller(
            self._drafter,
            self._costs,
            self._clock,
            most=request.max_draft or MAX_NODES,
            max_tokens=request.max_tokens,
            explain=request.trace,
        )

    def _steps(self, run: Run, draws: Draws | None) -> Generator[Chunk, None, Generation]:
        engine, drafter, clock, prefix = self._engine, self._drafter, self._clock, self._prefix
        policy = self._policy(run.request)
        sequence = engine.new_sequence() if prefix is None else prefix.take(run.history)
        try:
            started = clock()
            drafter.begin(run.history, run.choice())
            while run.finish_reason is None:
                # 1. Guess.
                choice = run.choice()
                draft = _propose(policy, choice, run.budget)
                proposed = clock()
                # 2. One pass over what the cache lacks and the guesses.
                rows = _rows(sequence, choice, draft, run, drafter.needs_hidden)
                num_cached = sequence.length
                [output] = engine.forward([rows])
                forwarded = clock()
                # 3. Keep the guesses that the target agrees with, and its own next token.
                first_guess = len(rows.token_ids) - len(draft)
                output = settle(draft, choice, output, first_guess - 1, draws)
                full = accept(draft, output.chosen[first_guess - 1 :])
                # 4. Commit, up to where the text ends.
                verdict = run.commit(rows, draft, full, output)
                sequence.keep((verdict.path + first_guess).astype(np.int32))
                committed = clock()
                # 5. Learn, count, and hand out.
                if output.hidden is not None:
                    drafter.read(num_cached, _kept(output.hidden, first_guess, verdict.path))
                drafter.observe(verdict)
                pass_seconds, num_rows = forwarded - proposed, len(rows.token_ids)
                policy.observe(verdict, num_rows, len(choice.history), pass_seconds, committed - started)
                observed = clock()
                propose_seconds = (proposed - started) + (observed - committed)
                chunk = run.count(propose_seconds, pass_seconds, committed - forwarded, policy.why())
                yield chunk
                started = clock()
        finally:
            try:
                sequence.close() if prefix is None else prefix.put(sequence, run.history)
            finally:
                drafter.end()
        return run.generation()


def _propose(policy: Policy, choice: Choice, budget: int) -> Draft:
    """The guesses of a step; none before the first token, which must not come later than plain decoding's."""
    if len(choice.history) == choice.prompt_length:
        return Draft()
    return policy.draft(choice, budget)


def _kept(hidden: Mapping[int, Float32], first_guess: int, path: Int32) -> Mapping[int, Float32]:
    """The hidden states of the rows that stay: the committed ones, and the guesses on the path."""
    if all(len(states) == first_guess + len(path) for states in hidden.values()):
        return hidden  # the usual plain step
    rows = np.concatenate([np.arange(first_guess), path + first_guess])
    return {layer: states[rows] for layer, states in hidden.items()}


def _rows(
    sequence: SequenceState, choice: Choice, draft: Draft, run: Run, want_hidden: tuple[int, ...]
) -> Rows:
    """The committed tokens that the cache lacks, then the draft."""
    fresh = choice.history[sequence.length :]
    last = len(fresh) - 1
    if draft.dists is not None:  # the target judges these by its logits, each of them
        choice = replace(choice, forced=draft.token_ids)
    parents = None
    if draft.parents is not None:
        # tree.ROOT, which is -1, becomes the row of the last committed token.
        parents = np.concatenate([np.arange(-1, last, dtype=np.int32), draft.parents + np.int32(len(fresh))])
    return Rows(
        sequence=sequence,
        token_ids=np.concatenate([fresh, draft.token_ids]) if len(draft) else fresh,
        parents=parents,
        choice=choice,
        choose_from=last,
        want_logits=run.wants_logits or draft.dists is not None,
        want_hidden=want_hidden,
    )

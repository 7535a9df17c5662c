"""One request at a time: the loop around `turn`, and the runner that makes drafters for it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Protocol
from weakref import WeakSet

from guessahead.controller import store
from guessahead.controller.base import FixedGamma
from guessahead.controller.controller import MAX_NODES, Controller
from guessahead.controller.pass_costs import LearnedPassCosts
from guessahead.core.rejection import ACCEPTANCES, REJECTION, HashDraws, RejectionJudge
from guessahead.core.sampling import is_greedy
from guessahead.core.state import GenerationState
from guessahead.core.step import CHOOSE, Step
from guessahead.drafters import registry
from guessahead.drafters.base import DrafterResources, check_sampling
from guessahead.errors import ParameterError, TokenizerError
from guessahead.grammar import constraint_for
from guessahead.protocols import RunnerInfo
from guessahead.runners.base import turn
from guessahead.runners.prefix import KeptPrefix
from guessahead.text.stream import StreamDecoder

if TYPE_CHECKING:
    from guessahead.drafters.base import Drafter
    from guessahead.protocols import DrafterSettings, DraftHead, Engine, Policy, Runner
    from guessahead.text.tokenizer import Tokenizer
    from guessahead.types import ChoiceContext, Chunk, Draws, Generation, Request


class SpeculativeDecoder:
    """Generates one text at a time with a target model and a drafter.

    The text does not depend on the drafter, on gamma, or on how many guesses were right (with acceptance
    "rejection", its distribution does not). `tokenizer` converts tokens to text and lists the tokens that end
    it.
    """

    def __init__(
        self,
        engine: Engine,
        drafter: Drafter,
        tokenizer: Tokenizer,
        *,
        costs: LearnedPassCosts | None = None,
        clock: Callable[[], float] = perf_counter,
        prefix: KeptPrefix | None = None,
        draws: Callable[[ChoiceContext], Draws] = HashDraws,
    ) -> None:
        """costs: the costs of passes of this engine, shared by its generations; None = start without any.

        clock: returns seconds, for all measurements; the replay engine has a virtual one.
        prefix: keeps the cache between generations; None = every generation starts with an empty one.
        draws: makes the random numbers for acceptance "rejection" from the first context of a generation.
        """
        self._engine = engine
        self._drafter = drafter
        self._tokenizer = tokenizer
        self._costs = LearnedPassCosts(engine.info.max_rows) if costs is None else costs
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
        """One chunk per step, as soon as it is final; the generator's return value is the Generation.

        Closing the generator early, at any chunk, frees the cache and ends the drafter. Raises at once:
        PromptError for an empty prompt or one that fills the context, ParameterError for a drafter that does
        not support the request's `acceptance`, GrammarError for a grammar that cannot be used.
        """
        text = StreamDecoder(self._tokenizer, request.stops, request.params.min_tokens)
        drafter, info = self._drafter, self._engine.info
        constraint = None
        if request.grammar is not None:
            constraint = constraint_for(
                request.grammar, self._tokenizer, info.vocab_size, len(request.prompt_ids)
            )
        state = GenerationState(
            request, info, self._tokenizer.eos_ids, text, drafter.name, drafter.note, constraint
        )
        sampled = request.acceptance == REJECTION and not is_greedy(request.params)
        if sampled:
            check_sampling(drafter)
        return self._steps(state, self._draws(state.context()) if sampled else None)

    def _steps(self, state: GenerationState, draws: Draws | None) -> Generator[Chunk, None, Generation]:
        engine, drafter, clock, prefix = self._engine, self._drafter, self._clock, self._prefix
        sequence = engine.new_sequence() if prefix is None else prefix.take(state.history)
        try:
            judge = CHOOSE if draws is None else RejectionJudge(draws)
            step = Step(state, sequence, drafter, self._policy(state.request, draws), judge)
            drafter.begin(state.context())
            while state.finish_reason is None:
                [chunk] = turn(engine, [step], clock)
                yield chunk
        finally:
            try:
                sequence.close() if prefix is None else prefix.put(sequence, state.history)
            finally:
                drafter.end()
        return state.generation()

    def _policy(self, request: Request, draws: Draws | None) -> Policy:
        """The policy that decides how much is guessed."""
        drafter = self._drafter
        if request.gamma != "auto" or not drafter.members:
            return FixedGamma(drafter, 0 if request.gamma == "auto" else request.gamma, draws)
        return Controller(
            drafter,
            self._costs,
            draws=draws,
            most=request.max_draft or MAX_NODES,
            max_tokens=request.max_tokens,
            explain=request.trace,
        )


class LowerPrecision(Protocol):
    """Creates engines of a model's own weights at lower precision (models/lower_precision.py)."""

    def at(self, kind: str) -> Engine:
        """An engine of the same weights in another format ("Q4_1", "Q8_0"); loaded once."""

    def below(self, kind: str) -> Engine:
        """The same; raises ParameterError for a format that is not smaller than the weights are."""


class SoloRunner:
    """A loaded model that serves one request at a time (see protocols.Runner)."""

    def __init__(
        self,
        engine: Engine,
        tokenizer: Tokenizer,
        *,
        lower_precision: LowerPrecision | None = None,
        prefix: KeptPrefix | None = None,
    ) -> None:
        """lower_precision: for drafters that use a smaller copy of the model. prefix: of a session.

        The model's draft head, if it has one, is loaded here, so that the first token does not wait for it.
        """
        self.engine, self.tokenizer, self.lower_precision = engine, tokenizer, lower_precision
        self.info = RunnerInfo("solo", engine.info, acceptances=ACCEPTANCES)
        self._prefix = prefix
        self._heads: dict[str, DraftHead | None] = {"": engine.head()}
        self._same_tokenizer: WeakSet[Tokenizer] = WeakSet([tokenizer])
        self._other_tokenizer: WeakSet[Tokenizer] = WeakSet()

    def stream(self, request: Request, drafter: DrafterSettings) -> Generator[Chunk, None, Generation]:
        """See `Runner.stream`. Raises ParameterError for a drafter that is unknown or cannot be used here."""
        resources = self.resources(drafter.draft_model)
        if request.grammar is not None:
            resources = replace(resources, constrained=True)
        made = registry.make(drafter.name, drafter.options, resources)
        weighs = request.gamma == "auto" and made.members
        costs = store.costs_of(self.engine) if weighs else None  # the first time they are measured
        decoder = SpeculativeDecoder(self.engine, made, self.tokenizer, costs=costs, prefix=self._prefix)
        return self._stored(decoder.stream(request))

    def session(self) -> SoloRunner:
        """A runner of the same model that keeps its cache from one request to the next."""
        session = SoloRunner.__new__(SoloRunner)
        vars(session).update(vars(self))  # everything that is loaded is shared
        session._prefix = KeptPrefix(self.engine)
        return session

    def close(self) -> None:
        if self._prefix is not None:
            self._prefix.close()

    def resources(self, draft_model: Runner | None = None) -> DrafterResources:
        """The resources of a drafter for this model, with a second model if one is given."""
        lower = self.lower_precision
        resources = DrafterResources(
            engine=self.engine,
            tokenizer=self.tokenizer,
            at_precision=lower.at if lower else None,
            head=self._head,
        )
        if draft_model is None:
            return resources
        draft = solo(draft_model)
        return replace(
            resources,
            draft_engine=draft.engine,
            draft_tokenizer=self._unlike(draft.tokenizer),
            draft_at_precision=draft.lower_precision.below if draft.lower_precision else None,
        )

    def _stored(self, steps: Generator[Chunk, None, Generation]) -> Generator[Chunk, None, Generation]:
        """The same chunks; at their end, the learned pass costs are stored for the next process."""
        generation = yield from steps
        store.keep(self.engine)
        return generation

    def _head(self, path: str) -> DraftHead | None:
        """The draft head in a folder, or the one that belongs to this model (""); loaded once."""
        if path not in self._heads:
            self._heads[path] = self.engine.head(path)
        return self._heads[path]

    def _unlike(self, tokenizer: Tokenizer) -> Tokenizer | None:
        """The tokenizer if its ids differ from this model's, else None; they are compared once."""
        if tokenizer not in self._same_tokenizer and tokenizer not in self._other_tokenizer:
            try:
                self.tokenizer.check_same(tokenizer)
                self._same_tokenizer.add(tokenizer)
            except TokenizerError:
                self._other_tokenizer.add(tokenizer)
        return tokenizer if tokenizer in self._other_tokenizer else None


def solo(runner: Runner) -> SoloRunner:
    """The runner as a SoloRunner, which has an engine. Raises ParameterError if it is another one."""
    if not isinstance(runner, SoloRunner):
        raise ParameterError(
            f"this needs a model that was loaded in this process, not runner {runner.info.name!r}"
        )
    return runner

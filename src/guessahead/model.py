"""A loaded language model: text in, text out."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeGuard, Unpack
from weakref import WeakSet

import numpy as np

from guessahead.controller import store as calibration
from guessahead.core.state import Chunk, Request
from guessahead.drafters import registry
from guessahead.drafters.base import Setup
from guessahead.errors import ParameterError, PromptError, StateError, TokenizerError
from guessahead.heads import NativeHead, load_head
from guessahead.models.gguf import GGMLType
from guessahead.options import GenerateOptions, OptionArguments, documented
from guessahead.runners.prefix import KeptPrefix
from guessahead.runners.solo import SpeculativeDecoder
from guessahead.types import Generation, Int32

if TYPE_CHECKING:
    from guessahead.engines.base import Engine
    from guessahead.text.stream import ChatTemplate
    from guessahead.text.tokenizer import Tokenizer

Message = Mapping[str, str]
Prompt = str | Sequence[int] | Sequence[Message]


class LanguageModel:
    """An engine with its tokenizer and chat template.

    prompt: text, which becomes the user's message in the model's chat template (unless raw=True); token ids,
    taken as they are; or chat messages. All options are those of GenerateOptions; whatever cannot be honoured
    raises ParameterError, before anything is generated. A prompt that is empty or fills the context raises
    PromptError.
    """

    def __init__(
        self,
        engine: Engine,
        tokenizer: Tokenizer,
        chat_template: ChatTemplate | None,
        name: str,
        at_precision: Callable[[str], Engine] | None = None,
        bits_per_weight: float = math.inf,
    ) -> None:
        """at_precision: makes an engine of the same weights in another format, for drafters that want one.

        bits_per_weight: of the matrices as they are. The model's draft head, if it has one, is read at
        once: no first token shall wait for it.
        """
        self.engine = engine
        self.tokenizer = tokenizer
        self.chat_template = chat_template
        self.name = name
        self._at_precision = at_precision
        self._bits_per_weight = bits_per_weight
        self._lower: dict[str, Engine] = {}
        self._heads: dict[str, NativeHead | None] = {"": load_head(engine)}
        self._same_tokenizer: WeakSet[Tokenizer] = WeakSet([tokenizer])
        self._other_tokenizer: WeakSet[Tokenizer] = WeakSet()
        self._prefix: KeptPrefix | None = None

    @documented
    def generate(self, prompt: Prompt, **options: Unpack[OptionArguments]) -> Generation:
        """The finished answer to a prompt."""
        with self.stream(prompt, **options) as stream:
            for _ in stream:
                pass
            return stream.result

    @documented
    def chat(self, messages: Sequence[Message], **options: Unpack[OptionArguments]) -> Generation:
        """The next message of a chat; messages: [{"role": "user", "content": "..."}, ...]."""
        if isinstance(messages, str):
            raise ParameterError("chat takes a list of messages; for one text use generate")
        return self.generate(messages, **options)

    @documented
    def stream(self, prompt: Prompt, **options: Unpack[OptionArguments]) -> Stream:
        """The answer as it comes: an iterable of chunks. Prompt and options are checked at once."""
        checked = GenerateOptions.from_arguments(options, self.engine.info.vocab_size)
        drafter = registry.make(checked.drafter, checked.drafter_options, self.setup(checked.draft_model))
        decoder = SpeculativeDecoder(
            self.engine,
            drafter,
            self.tokenizer,
            costs=calibration.costs_of(self.engine),
            prefix=self._prefix,
        )
        request = Request(
            prompt_ids=self._prompt_ids(prompt, checked),
            params=checked.sampling,
            max_tokens=checked.max_tokens,
            gamma=checked.fixed_gamma,
            max_draft=checked.max_draft,
            stops=checked.stops,
            logprobs=checked.logprobs,
            trace=checked.trace,
            acceptance=checked.acceptance,
        )
        return Stream(decoder.stream(request), lambda: calibration.keep(self.engine))

    def session(self) -> Session:
        """This model, with a cache that is kept from one generation to the next."""
        return Session(self)

    def setup(self, draft_model: LanguageModel | None = None) -> Setup:
        """What a drafter for this model may use."""
        return Setup(
            self.engine,
            draft_model.engine if draft_model is not None else None,
            self.tokenizer,
            self._engine_at if self._at_precision is not None else None,
            self._head_at,
            draft_tokenizer=self._unlike(draft_model.tokenizer) if draft_model is not None else None,
            draft_at_precision=draft_model.engine_below() if draft_model is not None else None,
        )

    def _head_at(self, path: str) -> NativeHead | None:
        """The draft head in a folder, or the one that belongs to this model (""); loaded once."""
        if path not in self._heads:
            self._heads[path] = load_head(self.engine, path)
        return self._heads[path]

    def _unlike(self, tokenizer: Tokenizer) -> Tokenizer | None:
        """The tokenizer, if its ids mean something else than this model's; they are compared once."""
        if tokenizer not in self._same_tokenizer and tokenizer not in self._other_tokenizer:
            try:
                self.tokenizer.check_same(tokenizer)
                self._same_tokenizer.add(tokenizer)
            except TokenizerError:
                self._other_tokenizer.add(tokenizer)
        return tokenizer if tokenizer in self._other_tokenizer else None

    def engine_below(self) -> Callable[[str], Engine] | None:
        """Makes an engine of the same weights at a lower precision; None if they came from no GGUF file.

        What is returned raises ParameterError for a precision that the weights have already, or less.
        """

        def below(precision: str) -> Engine:
            wanted = 8.0 * GGMLType[precision].row_bytes(256) / 256
            if self._bits_per_weight <= wanted:
                raise ParameterError(
                    f"{self.name!r} has {self._bits_per_weight:.1f} bits a weight already, and {precision} "
                    f"would have {wanted:.1f}: leave precision out"
                )
            return self._engine_at(precision)

        return below if self._at_precision is not None else None

    def _engine_at(self, precision: str) -> Engine:
        """An engine of the same weights in another format; loaded once."""
        if precision not in self._lower:
            assert self._at_precision is not None
            self._lower[precision] = self._at_precision(precision)
        return self._lower[precision]

    def _prompt_ids(self, prompt: Prompt, options: GenerateOptions) -> Int32:
        messages: Sequence[Message]
        if isinstance(prompt, str):
            if options.raw:
                return self._encode(prompt)
            messages = [{"role": "user", "content": prompt}]
        elif _are_messages(prompt):
            if options.raw:
                raise ParameterError("chat messages need the chat template, which raw=True leaves out")
            messages = prompt
        else:
            return self._checked_ids(prompt, options)
        if self.chat_template is None:
            raise ParameterError(f"model {self.name!r} has no chat template: use raw=True")
        return self._encode(self.chat_template.render(messages, system=options.system))

    def _encode(self, text: str) -> Int32:
        return np.array(self.tokenizer.encode(text, special=True), np.int32)

    def _checked_ids(self, prompt: object, options: GenerateOptions) -> Int32:
        if not isinstance(prompt, Sequence | np.ndarray):
            raise ParameterError(f"a prompt is text, token ids or chat messages, not {prompt!r}")
        if options.system is not None:
            raise ParameterError("system needs the chat template; a prompt of token ids is taken as it is")
        vocab_size = self.engine.info.vocab_size
        for token in prompt:
            integral = isinstance(token, int | np.integer) and not isinstance(token, bool)
            if not integral or not 0 <= token < vocab_size:
                raise PromptError(f"prompt token {token!r} is not an id from 0 to {vocab_size - 1}")
        return np.array(prompt, np.int32)


class Session(LanguageModel):
    """A model that does not read again what the last prompt and answer have in common with the next prompt.

    For conversations: every prompt holds all that was said before. Nothing but the time to the first token
    depends on it: any prompt may follow any other. It holds the cache of one text until it is closed.
    """

    def __init__(self, lm: LanguageModel) -> None:
        vars(self).update(vars(lm))  # all that is loaded is shared
        self._prefix: KeptPrefix = KeptPrefix(self.engine)

    def close(self) -> None:
        """Free the cache. The next generation begins anew."""
        self._prefix.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _are_messages(prompt: object) -> TypeGuard[Sequence[Message]]:
    return (
        isinstance(prompt, Sequence) and len(prompt) > 0 and all(isinstance(part, Mapping) for part in prompt)
    )


class Stream:
    """Chunks of an answer that is being generated; `result` once they have all been read.

    Leaving it early (`close`, or the end of a `with` block) frees what the generation holds.
    """

    def __init__(
        self, steps: Generator[Chunk, None, Generation], at_end: Callable[[], None] = lambda: None
    ) -> None:
        """at_end: called once the last chunk has been read."""
        self._steps, self._at_end = steps, at_end
        self._result: Generation | None = None

    def __iter__(self) -> Iterator[Chunk]:
        return self

    def __next__(self) -> Chunk:
        try:
            return next(self._steps)
        except StopIteration as end:
            if end.value is not None:
                self._result = end.value
                self._at_end()
            raise StopIteration from None

    @property
    def result(self) -> Generation:
        """The whole generation. Raises StateError before the last chunk has been read."""
        if self._result is None:
            raise StateError("the stream has no result yet: read it to its end first")
        return self._result

    def close(self) -> None:
        """Stop generating. Safe at any time, and more than once."""
        self._steps.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

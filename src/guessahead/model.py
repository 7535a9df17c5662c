"""A loaded language model: text in, text out."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Self, TypeGuard, Unpack

import numpy as np

from guessahead.controller import saved
from guessahead.drafters import registry
from guessahead.errors import ParameterError, PromptError, StateError
from guessahead.options import GenerateOptions, OptionArguments, Parser, check_loading, documented
from guessahead.protocols import DrafterSettings
from guessahead.text.messages import is_message
from guessahead.types import Chunk, Generation, Int32, Request

if TYPE_CHECKING:
    from guessahead.controller.saved import Tuned
    from guessahead.protocols import EngineInfo, Model, Runner
    from guessahead.text.chat_template import ChatTemplate
    from guessahead.text.tokenizer import Tokenizer

Message = Mapping[str, Any]
Prompt = str | Sequence[int] | Sequence[Message]
Progress = Callable[[int, int, str], None]
DEFAULT_MODEL = "smollm2-135m"


def load(
    model: str | os.PathLike[str] = DEFAULT_MODEL,
    *,
    threads: int | None = None,
    context: int | None = None,
    activations: Literal["int8", "f32"] = "int8",
    cache: Literal["f32", "f16"] = "f32",
    engine: str = "native",
    progress: Progress | None = None,
) -> LanguageModel:
    """Load a model, ready to generate.

    model: a name of the catalogue, the path of a GGUF file or of a Hugging Face model folder, or a hub id.
    threads: worker threads; None = as `guessahead tune` saved, else one for each core this process may use.
    context: maximum number of tokens of a sequence; None = the model's own.
    activations: the format of the inputs of quantised weights: "int8" (fast, the default) or "f32" (slow, a
        reference for checks). Inputs of other weights are always f32.
    cache: the format of keys and values: "f32", or "f16", which takes half the memory and is faster at long
        contexts. With f16 the model is slightly different: plain decoding and guessing agree, but not with
        f32.
    engine: what runs the model (engines/registry.py).
    progress: called with the progress of a download; None = a progress bar on stderr.
    Raises ModelError, TokenizerError or ParameterError, in one line.
    """
    check_loading(model, threads, context)
    from guessahead.engines.registry import RunSettings
    from guessahead.models.load import identity, load_parts
    from guessahead.runners.solo import SoloRunner

    if threads is None and activations == "int8" and (tuned := saved.load(identity(os.fspath(model)))):
        threads = tuned.threads
    settings = RunSettings(threads=threads, context=context, activations=activations, cache=cache)
    parts = load_parts(model, settings, engine=engine, progress=progress)
    runner = SoloRunner(parts.engine, parts.tokenizer, lower_precision=parts.lower_precision)
    return LanguageModel(runner, parts.tokenizer, parts.chat_template, parts.name, parts.identity)


class LanguageModel:
    """A runner with the model's tokenizer and chat template.

    prompt: text, which becomes the user's message in the model's chat template (unless raw=True); token ids,
    used as they are; or chat messages. All options are those of GenerateOptions; one that cannot be honoured
    raises ParameterError before anything is generated. A prompt that is empty or fills the context raises
    PromptError. The defaults of drafter and max_draft are those that `guessahead tune` saved for this model
    and machine.
    """

    def __init__(
        self,
        runner: Runner,
        tokenizer: Tokenizer,
        chat_template: ChatTemplate | None,
        name: str,
        identity: str = "",
    ) -> None:
        """identity: the key of saved settings; "" = there are none."""
        self.runner = runner
        self.tokenizer = tokenizer
        self.chat_template = chat_template
        self.name = name.encode("utf-8", errors="replace").decode()  # a file name may be none
        self.identity = identity
        self._tuned: dict[str | None, Tuned | None] = {}  # by the identity of a second model

    @property
    def info(self) -> EngineInfo:
        """Facts about the model, and how it runs."""
        return self.runner.info.engine

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
            raise ParameterError("chat takes a list of messages; use generate for a single text")
        return self.generate(messages, **options)

    @documented
    def stream(self, prompt: Prompt, **options: Unpack[OptionArguments]) -> Stream:
        """An iterable of chunks, as they are generated. Prompt and options are checked at once."""
        checked = GenerateOptions.from_arguments(self._with_tuned(options), self.info.vocab_size)
        request = Request(
            prompt_ids=self._prompt_ids(prompt, checked),
            params=checked.sampling,
            max_tokens=checked.max_tokens,
            gamma=checked.gamma,
            max_draft=checked.max_draft,
            stops=checked.stops,
            logprobs=checked.logprobs,
            trace=checked.trace,
            acceptance=checked.acceptance,
            grammar=checked.text_grammar,
        )
        second = checked.draft_model
        drafter = DrafterSettings(
            checked.drafter, checked.drafter_options or {}, second.runner if second is not None else None
        )
        return Stream(self.runner.stream(request, drafter), checked.parser)

    def session(self) -> Session:
        """A `Session` of this model: its cache is kept from one generation to the next."""
        return Session(self)

    def _with_tuned(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options, completed with saved ones.

        Settings measured with other threads or other activations are not used. The saved drafter is not used
        if the caller gives drafter options, or a draft model that this drafter cannot use.
        """
        filled, second = dict(options), options.get("draft_model")
        if not isinstance(second, LanguageModel | None):
            raise ParameterError(f"draft_model must be a loaded model, not {second!r}")
        tuned = self._saved(second)
        if tuned is None or (tuned.threads, "int8") != (self.info.threads, self.info.dtype):
            return filled
        usable = second is None or registry.find(tuned.drafter).takes_draft_engine
        if usable and not options.get("drafter") and not options.get("drafter_options"):
            filled["drafter"] = tuned.drafter
        if options.get("gamma", "auto") == "auto" and options.get("max_draft") is None:
            filled["max_draft"] = tuned.max_draft
        return filled

    def _saved(self, second: Model | None) -> Tuned | None:
        """The saved setting for this model, and a second one if given; the file is read once."""
        other = None if second is None else second.identity
        if not self.identity or other == "":
            return None
        if other not in self._tuned:
            self._tuned[other] = saved.load(self.identity, other)
        return self._tuned[other]

    def _prompt_ids(self, prompt: Prompt, options: GenerateOptions) -> Int32:
        messages: Sequence[Message]
        if options.continue_last and not _are_messages(prompt):
            raise ParameterError("continue_last needs chat messages, the last of them the assistant's")
        if isinstance(prompt, str):
            if options.raw:
                return self._in_model(self.tokenizer.encode(prompt, special=True))
            messages = [{"role": "user", "content": prompt}]
        elif _are_messages(prompt):
            if options.raw:
                raise ParameterError("chat messages need the chat template, but raw=True disables it")
            messages = prompt
        else:
            return self._checked_ids(prompt, options)
        if self.chat_template is None:
            raise ParameterError(f"model {self.name!r} has no chat template: use raw=True")
        text = self.chat_template.render(messages, system=options.system, continue_last=options.continue_last)
        return self._in_model(self.tokenizer.encode_chat(text))

    def _in_model(self, token_ids: list[int]) -> Int32:
        """The ids of a text. Raises PromptError for a token of the tokenizer that the model lacks."""
        vocab_size = self.info.vocab_size
        if outside := [each for each in token_ids if each >= vocab_size]:
            name = self.tokenizer.token_text(outside[0])
            raise PromptError(
                f"the prompt contains the token {name!r} (id {outside[0]}), which the model lacks: it knows "
                f"the ids 0 to {vocab_size - 1}"
            )
        return np.array(token_ids, np.int32)

    def _checked_ids(self, prompt: object, options: GenerateOptions) -> Int32:
        if not isinstance(prompt, Sequence | np.ndarray) or isinstance(prompt, bytes | bytearray):
            raise ParameterError(f"a prompt is text, token ids or chat messages, not {prompt!r}")
        if options.system is not None:
            raise ParameterError("system needs the chat template; a prompt of token ids is used as it is")
        vocab_size = self.info.vocab_size
        for token in prompt:
            integral = isinstance(token, int | np.integer) and not isinstance(token, bool)
            if not integral or not 0 <= token < vocab_size:
                raise PromptError(f"prompt token {token!r} is not an id from 0 to {vocab_size - 1}")
        return np.array(prompt, np.int32)


class Session(LanguageModel):
    """A model that keeps the cache of its last text: the next prompt is read from the first difference on.

    For conversations, where every prompt contains the earlier messages. Only the time to the first token
    depends on it: any prompt may follow any other. It holds the cache of one text until it is closed.
    """

    def __init__(self, lm: LanguageModel) -> None:
        super().__init__(lm.runner.session(), lm.tokenizer, lm.chat_template, lm.name, lm.identity)

    def close(self) -> None:
        """Free the cache. The next generation starts with an empty one."""
        self.runner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _are_messages(prompt: object) -> TypeGuard[Sequence[Message]]:
    return (
        isinstance(prompt, Sequence)
        and not isinstance(prompt, str)
        and len(prompt) > 0
        and all(is_message(part) for part in prompt)
    )


_streams: set[weakref.ref[Stream]] = set()


@atexit.register
def _close_streams() -> None:
    """Close the streams that no other thread reads, while drafters and engines can still be used."""
    others = {thread.ident for thread in threading.enumerate()} - {threading.get_ident()}
    for reference in list(_streams):
        stream = reference()
        if stream is not None and stream._reader not in others:
            with suppress(ValueError):  # in the child of a fork: a thread of the parent was running it
                stream.close()


class Stream:
    """The chunks of an answer during its generation; `result` is available after the last one.

    Ending it early (`close`, or the end of a `with` block) frees everything that the generation holds. The
    end of the process closes it, too, unless another thread reads it.
    """

    def __init__(self, steps: Generator[Chunk, None, Generation], parser: Parser | None = None) -> None:
        self._steps, self._parser = steps, parser
        self._result: Generation | None = None
        self._reader = threading.get_ident()
        _streams.add(weakref.ref(self, _streams.discard))

    def __iter__(self) -> Iterator[Chunk]:
        return self

    def __next__(self) -> Chunk:
        self._reader = threading.get_ident()
        try:
            return next(self._steps)
        except StopIteration as end:
            if end.value is not None:
                self._result = replace(end.value, parser=self._parser)
            raise StopIteration from None

    @property
    def result(self) -> Generation:
        """The complete generation. Raises StateError until the last chunk has been read."""
        if self._result is None:
            raise StateError("the stream has no result yet: read it to its end first")
        return self._result

    def close(self) -> None:
        """Stop generating. Safe at any time, and more than once."""
        self._steps.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

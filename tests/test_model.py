from __future__ import annotations

import inspect
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from guessahead.errors import ParameterError, PromptError, StateError
from guessahead.model import LanguageModel, load
from guessahead.options import GenerateOptions, OptionArguments
from guessahead.runners.solo import SoloRunner
from guessahead.types import SamplingParams
from tests.support.fake_text import FakeTemplate, FakeTokenizer, letters
from tests.support.fakes import ScriptEngine, TinyEngine

BYTES = FakeTokenizer([bytes([i]) for i in range(256)], eos_ids=(0,))


def tiny(template: Any = None, **engine: Any) -> LanguageModel:
    return LanguageModel(SoloRunner(TinyEngine(256, **engine), BYTES), BYTES, template, "tiny")  # type: ignore[arg-type]


def prompt_of(lm: LanguageModel, prompt: Any, **options: Any) -> str:
    trace = lm.generate(prompt, max_tokens=1, trace=True, **options).trace
    assert trace is not None
    return bytes(trace["prompt_token_ids"]).decode()


def test_a_text_becomes_a_user_message() -> None:
    assert prompt_of(tiny(FakeTemplate()), "hi") == "<user>hi<assistant>"
    assert prompt_of(tiny(FakeTemplate()), "hi", system="be kind") == "<system>be kind<user>hi<assistant>"
    assert prompt_of(tiny(FakeTemplate()), "hi", raw=True) == "hi"


def test_chat_messages() -> None:
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    lm = tiny(FakeTemplate())
    assert prompt_of(lm, messages) == "<user>a<assistant>b<assistant>"
    assert prompt_of(lm, messages, continue_last=True) == "<user>a<assistant>b"
    assert lm.chat(messages, max_tokens=5).token_ids == lm.generate(messages, max_tokens=5).token_ids


def test_special_tokens_in_a_prompt_are_recognised() -> None:
    trace = tiny(FakeTemplate()).generate("a<eos>", max_tokens=1, trace=True, raw=True).trace
    assert trace is not None
    assert trace["prompt_token_ids"] == [97, 0]


def test_token_ids_are_taken_as_they_are() -> None:
    lm = tiny()
    assert lm.generate([65, 66], max_tokens=4) is not None
    by_array = lm.generate(np.array([65, 66]), max_tokens=4)  # type: ignore[arg-type]
    assert by_array.token_ids == lm.generate([65, 66], max_tokens=4).token_ids
    assert by_array.num_prompt_tokens == 2


@pytest.mark.parametrize(
    ("prompt", "options", "error", "problem"),
    [
        ("hi", {}, ParameterError, "model 'tiny' has no chat template: use raw=True"),
        ([65], {"system": "x"}, ParameterError, "system needs the chat template"),
        ([65], {"continue_last": True}, ParameterError, "continue_last needs chat messages"),
        ("hi", {"continue_last": True}, ParameterError, "continue_last needs chat messages"),
        ("hi", {"continue_last": 1}, ParameterError, "continue_last must be True or False"),
        ([65, 256], {}, PromptError, "prompt token 256 is not an id from 0 to 255"),
        ([65, "a"], {}, PromptError, "prompt token 'a'"),
        ([65, True], {}, PromptError, "prompt token True"),
        (17, {}, ParameterError, "a prompt is text, token ids or chat messages"),
        ([{"role": "user", "content": "x"}], {"raw": True}, ParameterError, "chat messages need"),
        ("x", {"raw": True, "system": "y"}, ParameterError, "raw=True disables it"),
        ("", {"raw": True}, PromptError, "the prompt is empty"),
        ([], {}, PromptError, "the prompt is empty"),
    ],
)
def test_prompts_that_cannot_work(prompt: Any, options: Any, error: type[Exception], problem: str) -> None:
    with pytest.raises(error, match=problem) as raised:
        tiny().stream(prompt, **options)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"max_tokens": 0}, "max_tokens must be a whole number at least 1, not 0"),
        ({"max_tokens": 2.0}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"gamma": -1}, "gamma must be a whole number at least 0"),
        ({"max_draft": 0}, "max_draft must be a whole number at least 1, not 0"),
        ({"max_draft": 3, "gamma": 2}, "max_draft applies only with gamma='auto'"),
        ({"logprobs": -1}, "logprobs must be a whole number from 0 to 256"),
        ({"logprobs": 257}, "logprobs"),
        ({"raw": 1}, "raw must be True or False"),
        ({"trace": None}, "trace must be True or False"),
        ({"drafter": None}, "drafter must be text"),
        ({"drafter": "medusa"}, "unknown drafter 'medusa'"),
        ({"system": 3, "raw": False}, "system must be text"),
        ({"stop": ""}, "stop must be"),
        ({"stop": ["a", ""]}, "stop must be"),
        ({"stop": 7}, "stop must be"),
        ({"stop": [7]}, "stop must be"),
        ({"logit_bias": [1]}, "logit_bias must be a mapping"),
        ({"drafter_options": 1}, "drafter_options must be a mapping"),
        ({"temperature": -1.0}, "temperature"),
        ({"top_p": 0.0}, "top_p"),
        ({"seed": -1}, "seed"),
        ({"logit_bias": {256: 1.0}}, "logit_bias"),
        ({"min_tokens": 9, "max_tokens": 8}, r"min_tokens \(9\) must not be above max_tokens \(8\)"),
        ({"temprature": 1.0}, "unknown option 'temprature'; known: max_tokens, drafter"),
        ({"drafter": "draft-model"}, "needs a second model"),
        ({"drafter": "prompt-lookup", "draft_model": tiny()}, "'prompt-lookup' cannot use a draft model"),
    ],
)
def test_impossible_options_are_one_clear_line(options: Any, problem: str) -> None:
    with pytest.raises(ParameterError, match=problem) as raised:
        tiny().stream([65], **options)
    assert "\n" not in str(raised.value)


def test_every_sampling_option_arrives() -> None:
    changes: dict[str, Any] = {
        "temperature": 0.5, "top_k": 3, "top_p": 0.9, "min_p": 0.1, "repetition_penalty": 1.1,
        "frequency_penalty": 0.2, "presence_penalty": 0.3, "logit_bias": {1: 2.0}, "min_tokens": 2, "seed": 5,
    }  # fmt: skip
    sampling = GenerateOptions.from_arguments(changes, 256).sampling
    assert {each.name: getattr(sampling, each.name) for each in fields(sampling)} == changes


def test_the_options_are_written_down_once() -> None:
    sampling = [each.name for each in fields(SamplingParams)]
    own = [each.name for each in fields(GenerateOptions) if each.name not in sampling]
    names = own + sampling
    assert set(OptionArguments.__annotations__) == set(names)
    for method in (LanguageModel.generate, LanguageModel.stream, LanguageModel.chat):
        parameters = inspect.signature(method).parameters
        assert list(parameters)[2:] == names
        assert parameters["gamma"].default == "auto"
    documented = GenerateOptions.__doc__ or ""
    assert [name for name in own if name not in documented] == []
    documented = SamplingParams.__doc__ or ""
    assert [name for name in sampling if name not in documented] == []


def test_streams() -> None:
    lm = tiny(FakeTemplate())
    with lm.stream("hello hello hello", max_tokens=30) as stream:
        first = next(stream)
        with pytest.raises(StateError, match="no result yet"):
            _ = stream.result
        chunks = [first, *stream]
    assert list(stream) == []
    whole = lm.generate("hello hello hello", max_tokens=30)
    assert stream.result.token_ids == whole.token_ids == sum((c.token_ids for c in chunks), ())
    assert stream.result.text == whole.text == "".join(c.text for c in chunks)
    stream.close()
    assert stream.result.token_ids == whole.token_ids


def test_a_stream_that_is_left_holds_nothing() -> None:
    lm = tiny(FakeTemplate())
    engine: Any = lm.runner.engine
    with lm.stream("hello", max_tokens=30) as stream:
        next(stream)
        assert engine.num_open == 1
    assert engine.num_open == 0
    assert list(stream) == []
    with pytest.raises(StateError):
        _ = stream.result
    unread = lm.stream("hello", max_tokens=30)
    assert engine.num_open == 0, "nothing is held before the first chunk is read"
    unread.close()


def test_chat_of_a_text_is_refused() -> None:
    with pytest.raises(ParameterError, match="list of messages"):
        tiny(FakeTemplate()).chat("hello")  # type: ignore[arg-type]


def test_a_draft_model_is_compared_once() -> None:
    num_checks = 0

    class Counting(FakeTokenizer):
        def check_same(self, other: FakeTokenizer) -> None:
            nonlocal num_checks
            num_checks += 1

    engine = ScriptEngine([1, 2, 3], 8)
    lm = LanguageModel(
        SoloRunner(engine, Counting(letters(8).pieces)), Counting(letters(8).pieces), None, "big"
    )  # type: ignore[arg-type]
    small = LanguageModel(SoloRunner(ScriptEngine([1, 2, 3], 8), letters(8)), letters(8), None, "small")  # type: ignore[arg-type]
    for _ in range(3):
        generation = lm.generate([3], max_tokens=9, drafter="draft-model", draft_model=small, gamma=4)
        assert generation.stats.alpha == 1.0
    assert num_checks == 1
    lm.generate([3], max_tokens=2, drafter="draft-model", draft_model=lm)
    assert num_checks == 1


@pytest.mark.parametrize("model", [None, 5, b"smollm2-135m", ["smollm2-135m"]])
def test_a_model_is_a_name_or_a_path(model: Any) -> None:
    with pytest.raises(ParameterError, match="model must be a name or a path, not "):
        load(model)


@pytest.mark.parametrize("setting", ["threads", "context"])
@pytest.mark.parametrize("value", [1.5, "2", True, 0, -1])
def test_threads_and_context_are_whole_numbers(setting: str, value: Any) -> None:
    with pytest.raises(ParameterError, match=f"{setting} must be a whole number at least 1, not "):
        load("no-such-model", **{setting: value})


def test_bytes_are_no_prompt() -> None:
    for prompt in (b"text", bytearray(b"text")):
        with pytest.raises(ParameterError, match="a prompt is text, token ids or chat messages, not "):
            tiny().generate(prompt)  # type: ignore[arg-type]


def test_a_draft_model_is_a_loaded_model() -> None:
    for second in (5, "smollm2-135m"):
        with pytest.raises(ParameterError, match="draft_model must be a loaded model, not "):
            tiny().generate("text", draft_model=second)  # type: ignore[arg-type]

"""A cache that is kept from one generation to the next changes nothing but what is read again."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import guessahead as ga
from guessahead.drafters import registry
from guessahead.runners.prefix import KeptPrefix
from guessahead.runners.solo import SoloRunner, SpeculativeDecoder
from guessahead.types import Generation, Request, SamplingParams
from tests.equivalence.grid import DRAFTERS, SETTINGS, make_drafter, plain_decoding
from tests.equivalence.worlds import World, tiny_world
from tests.support.fake_text import FakeTemplate, letters
from tests.support.fakes import TinyEngine
from tests.support.tiny import tiny_gguf
from tests.support.tiny_head import tiny_head

NUM_TURNS = 6


@pytest.fixture(scope="module")
def world() -> World:
    return tiny_world()


def turns(world: World, setting: str, dice: random.Random) -> Iterator[Request]:
    """Prompts that go on from the last answer, or from a part of it, or from nothing, or are the last again.

    The caller sends back what was generated.
    """
    text: list[int] = []
    for turn in range(NUM_TURNS):
        kept = dice.choice((len(text), len(text), len(text) - 1, len(text) // 2, 0)) if text else 0
        fresh = [dice.randrange(20) for _ in range(dice.choice((0, 1, 5)))]
        prompt = (text[:kept] + fresh) or [5]
        params = SamplingParams(**SETTINGS[setting] | {"seed": 1000 * len(world.plain) + turn})
        request = Request(np.array(prompt, np.int32), params, max_tokens=12, gamma=4, logprobs=2)
        text = prompt + list((yield request).token_ids)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", DRAFTERS)
def test_every_turn_is_that_of_a_fresh_start(world: World, name: str, setting: str) -> None:
    engine, prefix, num_kept = world.engine, KeptPrefix(world.engine), 0
    conversation = turns(world, setting, random.Random(f"{name} {setting}"))
    request = next(conversation)
    while True:
        plain = plain_decoding(world, setting, request)
        drafter = make_drafter(name, world, [*request.prompt_ids.tolist(), *plain.token_ids])
        generation = SpeculativeDecoder(engine, drafter, world.tokenizer, prefix=prefix).generate(request)
        for what in ("token_ids", "text", "finish_reason", "logprobs"):
            assert getattr(generation, what) == getattr(plain, what)
        num_kept += generation.stats.num_kept_tokens
        try:
            request = conversation.send(generation)
        except StopIteration:
            break
    assert num_kept > 20
    prefix.close()
    assert engine.num_open == 0


CHAT = (
    [("user", "the quick brown fox")],
    [("assistant", None), ("user", "jumps over the lazy dog, and then?")],
    [("assistant", None), ("user", "def function(self, value):")],
    [("assistant", "something that it never said"), ("user", "jumps over the lazy dog, and then?")],
)
SAMPLED = {
    "temperature": 0.8,
    "seed": 3,
    "repetition_penalty": 1.2,
    "frequency_penalty": 0.3,
    "presence_penalty": 0.2,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sessions")
    tiny_gguf(folder / "target.gguf", format="F32", seed=5)
    tiny_gguf(folder / "windowed.gguf", "mistral", format="F32", seed=5)
    tiny_gguf(folder / "draft.gguf", format="Q8_0", seed=5)
    return folder


def chat(lm: ga.LanguageModel, fresh: Any, **options: Any) -> Iterator[tuple[Generation, Generation]]:
    """Each answer, and what a model without a past answers to the same messages."""
    messages: list[dict[str, str]] = []
    for added in CHAT:
        said = [{"role": role, "content": text or answer.text} for role, text in added]  # noqa: F821
        messages += said
        answer = lm.chat(messages, max_tokens=24, **options)
        yield answer, fresh(messages)


@pytest.mark.parametrize("settings", [{}, SAMPLED], ids=["greedy", "sampled-penalties"])
@pytest.mark.parametrize("model", ["target", "windowed"])
@pytest.mark.parametrize("name", registry.names())
def test_native(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    name: str,
    model: str,
    settings: dict[str, Any],
) -> None:
    monkeypatch.setenv("GUESSAHEAD_CACHE", str(tmp_path))
    path = folder / f"{model}.gguf"
    if name == "head":
        engine = ga.load(path).runner.engine
        tiny_head(engine).save(tmp_path / "heads" / engine.head_host.fingerprint)
    second = ga.load(folder / "draft.gguf") if registry.find(name).takes_draft_engine else None
    options: dict[str, Any] = {"drafter": name, "gamma": 3, "draft_model": second}
    with ga.load(path).session() as lm:
        kept = []
        for answer, fresh in chat(
            lm,
            lambda messages: ga.load(path).chat(messages, max_tokens=24, **settings),
            **options,
            **settings,
        ):
            assert answer.token_ids == fresh.token_ids
            assert answer.text == fresh.text
            kept.append(answer.stats.num_kept_tokens)
    assert kept[0] == 0
    assert min(kept[1:]) > 20


def fake_session() -> tuple[ga.Session, TinyEngine]:
    engine = TinyEngine()
    lm = ga.LanguageModel(SoloRunner(engine, letters(24)), letters(24), FakeTemplate(), "fake")  # type: ignore[arg-type]
    return lm.session(), engine


def test_what_is_read() -> None:
    lm, engine = fake_session()
    first = lm.generate([1, 2, 3], max_tokens=5, gamma=0)
    assert (first.stats.num_kept_tokens, engine.num_open) == (0, 1)
    text = [1, 2, 3, *first.token_ids]
    second = lm.generate([*text, 9], max_tokens=5, gamma=0, trace=True)
    assert second.trace is not None
    assert second.trace["steps"][0]["rows"] == [text[-1], 9], "the last token was pending"
    assert second.stats.num_kept_tokens == len(text) - 1
    again = lm.generate(text, max_tokens=1, trace=True)
    assert again.trace is not None
    assert again.trace["steps"][0]["rows"] == text[-1:], "the last token of a prompt is always fed"
    other = lm.generate([1, 7], max_tokens=1)
    assert other.stats.num_kept_tokens == 1
    assert engine.num_open == 1
    lm.close()
    lm.close()
    assert engine.num_open == 0
    assert lm.generate([1, 7], max_tokens=1).stats.num_kept_tokens == 0


def test_a_stream_that_is_left_early_is_kept_as_far_as_it_came() -> None:
    lm, engine = fake_session()
    whole = lm.generate([1, 2, 3], max_tokens=9, gamma=0).token_ids
    lm.close()
    with lm.stream([1, 2, 3], max_tokens=9, gamma=0) as stream:
        for _ in range(3):
            next(stream)
    after = lm.generate([1, 2, 3, *whole[:4]], max_tokens=5, gamma=0)
    assert after.stats.num_kept_tokens == 5
    assert after.token_ids == whole[4:]
    assert engine.num_open == 1


def test_two_generations_at_once_share_nothing() -> None:
    lm, engine = fake_session()
    alone = lm.generate([1, 2, 3], max_tokens=9).token_ids, lm.generate([1, 2, 4], max_tokens=9).token_ids
    one, two = lm.stream([1, 2, 3], max_tokens=9), lm.stream([1, 2, 4], max_tokens=9)
    streams = [one, two]
    while streams:
        streams = [stream for stream in streams if next(stream, None) is not None]
    assert (one.result.token_ids, two.result.token_ids) == alone
    assert engine.num_open == 1


def test_an_error_does_not_spoil_the_cache() -> None:
    lm, engine = fake_session()
    whole = lm.generate([1, 2, 3], max_tokens=9, drafter="none").token_ids
    forward, calls = engine.forward, 0

    def failing(requests: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise MemoryError
        return forward(requests)

    engine.forward = failing  # type: ignore[method-assign]
    with pytest.raises(MemoryError):
        lm.generate([1, 2, 5], max_tokens=9)
    assert lm.generate([1, 2, 3], max_tokens=9).token_ids == whole
    assert engine.num_open == 1

"""The grid's axes, and the one comparison that all of it makes.

A world is a target, a draft model that resembles it, and their tokenizer. A real engine joins the grid with
one more entry in WORLDS; a real model (`smollm2_world`) takes a coarser one, in test_real_models.py.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from guessahead.drafters import registry
from guessahead.drafters.base import Drafter, DrafterResources
from guessahead.engines.native.head import NativeHead
from guessahead.model import load
from guessahead.models import load as loading
from guessahead.models.convert import convert
from guessahead.types import Chunk, Generation, Request, SamplingParams
from tests.support.fake_drafters import HostileDrafter, OracleDrafter, TreeHostileDrafter, TreeOracleDrafter
from tests.support.fake_head import FakeHead
from tests.support.fake_text import letters
from tests.support.fakes import TinyEngine, decode_stream
from tests.support.second_tokenizer import with_other_tokenizer
from tests.support.tiny import tiny_gguf
from tests.support.tiny_head import tiny_head


@dataclass(frozen=True)
class World:
    """engine, draft_engine: Engine; tokenizer: Tokenizer. max_tokens: per generation.
    draft_tokenizer: of the draft model, if its ids mean something else.

    head: a draft head of the target. plain: what plain decoding gave, by setting and seed, as far as it was
    asked for.
    """

    engine: Any
    draft_engine: Any
    tokenizer: Any
    prompts: Sequence[Sequence[int]]
    stops: tuple[str, ...]
    max_tokens: int
    seeds: Sequence[int]
    gammas: Sequence[int]
    draft_tokenizer: Any = None
    head: Any = None
    plain: dict[tuple[str, int | None], Generation] = field(default_factory=dict, init=False, repr=False)

    @property
    def vocab_size(self) -> int:
        size: int = self.engine.info.vocab_size
        return size


def tiny_world() -> World:
    engine = TinyEngine(rare=(3, 17))
    return World(
        engine=engine,
        draft_engine=TinyEngine(vocab_size=26, seed=1, like=engine),
        tokenizer=letters(26, eos_ids=(3, 17)),
        prompts=[[5, 6, 7, 5, 6, 7, 5], [9], [1, 2, 4, 8, 1, 2], [20, 10, 20, 10]],
        stops=("AC", "QQ", "HGH", "WJ"),
        max_tokens=32,
        seeds=(0, 1, 2, 3, 4, 5),
        gammas=range(9),
    )


# Every format is in one of the two, and kernels of all sorts in both.
FORMATS = {
    "llama": ("F32", "F16", "BF16", "Q8_0", "Q4_1", "Q5_0", "Q4_K", "Q6_K"),
    "qwen2": ("F32", "Q4_1", "Q6_K", "Q4_0", "Q5_1", "Q5_K", "Q3_K", "Q2_K", "IQ4_NL", "IQ4_XS"),
}


def native_world(arch: str, format: str) -> World:
    """The native engine on a tiny random model; the draft model is the same one at another precision."""
    with tempfile.TemporaryDirectory() as folder:
        path = tiny_gguf(Path(folder) / "target.gguf", arch, format=format, seed=5).path
        target = load(path, threads=1 + (format == "Q4_1"))
        convert(path, Path(folder) / "draft.gguf", "Q8_0" if format != "Q8_0" else "F16")
        draft = load(Path(folder) / "draft.gguf", threads=1)
    target.tokenizer.check_same(draft.tokenizer)
    head = NativeHead(
        tiny_head(target.runner.engine, format, {"lm_head": "Q4_1"}), target.runner.engine.head_host
    )
    return World(
        engine=target.runner.engine,
        draft_engine=draft.runner.engine,
        tokenizer=target.tokenizer,
        prompts=[target.tokenizer.encode(text) for text in ("the fox the fox the", "a", "def function(self")],
        stops=("th", "ox ", "e e", "qq"),
        max_tokens=20,
        seeds=(0, 1, 2),
        gammas=(0, 1, 2, 3, 5, 8),
        head=head,
    )


def text_world(arch: str) -> World:
    """Two tokenizers: the draft model is the target under other token ids and with fewer merges.

    Its text holds bytes that are no characters and special tokens, as a random model chooses them.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = tiny_gguf(Path(folder) / "target.gguf", arch, seed=5).path
        other = with_other_tokenizer(path, Path(folder) / "draft.gguf")
        target, draft = load(path, threads=1), load(other, threads=1)
    texts = ("the fox the fox the", "a \u4e2d\u6587 \U0001f600 a \u4e2d", "  def function(self")
    return World(
        engine=target.runner.engine,
        draft_engine=draft.runner.engine,
        tokenizer=target.tokenizer,
        draft_tokenizer=draft.tokenizer,
        prompts=[target.tokenizer.encode(text, special=True) for text in texts],
        stops=("th", "ox ", "e e", "qq"),
        max_tokens=20,
        seeds=(0, 1, 2),
        gammas=(0, 1, 2, 3, 5, 8),
        head=NativeHead(
            tiny_head(target.runner.engine, "Q8_0", {"lm_head": "Q4_1"}), target.runner.engine.head_host
        ),
    )


def smollm2_world(folder: Path) -> World:
    """SmolLM2-135M; its draft model, in `folder`, is the same one at another precision and with noise.

    Its head is the one that was trained for it, or, as long as there is none, one of random weights.
    """
    target = load("smollm2-135m", context=1024)
    convert(loading.resolve("smollm2-135m"), folder / "draft.gguf", "Q8_0", noise_seed=1)
    draft = load(folder / "draft.gguf", context=1024)
    target.tokenizer.check_same(draft.tokenizer)
    template = target.chat_template
    assert template is not None
    questions = (
        "Write three times: the quick brown fox jumps over the lazy dog.",
        "Answer with a single word: which colour is the sky?",
        "Write the numbers 1 to 9 in Chinese characters, each with an emoji.",
    )
    texts = [template.render([{"role": "user", "content": question}]) for question in questions]
    return World(
        engine=target.runner.engine,
        draft_engine=draft.runner.engine,
        tokenizer=target.tokenizer,
        prompts=[target.tokenizer.encode(text, special=True) for text in texts],
        stops=("e sky", ", ", "\n\n"),
        max_tokens=20,
        seeds=(0, 1, 2, 3),
        gammas=(1, 3, 8),
        head=target.runner.engine.head()
        or NativeHead(tiny_head(target.runner.engine), target.runner.engine.head_host),
    )


WORLDS: dict[str, Callable[[], World]] = {"tiny": tiny_world} | {
    f"{arch}-{format}": partial(native_world, arch, format)
    for arch, formats in FORMATS.items()
    for format in formats
}
WORLDS |= {f"{arch}-text": partial(text_world, arch) for arch in ("llama", "qwen2")}


@cache
def shared_world(name: str) -> World:
    """The one of that name, for all tests: what plain decoding gave is kept with it."""
    return WORLDS[name]()


SETTINGS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "sampled": {"temperature": 1.0},
    "sampled-filtered": {"temperature": 0.7, "top_k": 9, "top_p": 0.9},
    "sampled-hot": {"temperature": 1.4, "top_p": 0.95, "min_p": 0.02},
    "penalties": {
        "repetition_penalty": 1.3,
        "frequency_penalty": 0.5,
        "presence_penalty": 0.4,
        "logit_bias": {4: 1.5, 6: float("-inf"), 3: 2.0},
        "min_tokens": 7,
    },
    "penalties-sampled": {
        "temperature": 0.9,
        "min_p": 0.05,
        "repetition_penalty": 1.2,
        "frequency_penalty": 0.7,
        "presence_penalty": -0.3,
        "logit_bias": {5: -2.0, 8: 1.0},
        "min_tokens": 5,
    },
}

OUR_DRAFTERS = ("oracle", "hostile", "tree-oracle", "tree-hostile")
DRAFTERS = (*registry.names(), *OUR_DRAFTERS)


def make_drafter(name: str, world: World, text: Sequence[int] = ()) -> Drafter:
    """text: prompt and plain output, for the drafters that know it."""
    if name == "oracle":
        return OracleDrafter(text, [2, 0, 5, 1, 8, 3], world.vocab_size)
    if name == "tree-oracle":
        return TreeOracleDrafter(text, [2, 0, 1, 8], world.vocab_size)
    if name == "hostile":
        return HostileDrafter(text, world.vocab_size)
    if name == "tree-hostile":
        return TreeHostileDrafter(text, world.vocab_size)
    needs_second = registry.find(name).takes_draft_engine
    second, head = world.draft_engine, world.head or fake_head(world.engine)
    setup = DrafterResources(
        world.engine, second if needs_second else None, world.tokenizer, lambda _: second, lambda _: head
    )
    return registry.make(
        name, {}, replace(setup, draft_tokenizer=world.draft_tokenizer if needs_second else None)
    )


@lru_cache(maxsize=4)
def fake_head(engine: Any) -> FakeHead:
    """One for each engine: what it computed once, it knows."""
    return FakeHead(engine)


def run(world: World, drafter: Drafter, request: Request) -> tuple[list[Chunk], Generation]:
    return decode_stream(world.engine, drafter, world.tokenizer, request)


def requests(world: World, setting: str, gamma: int = 0) -> Iterator[Request]:
    """One per seed; odd seeds with stop strings and log-probabilities."""
    for seed in world.seeds:
        yield Request(
            prompt_ids=np.array(world.prompts[seed % len(world.prompts)], np.int32),
            params=SamplingParams(**SETTINGS[setting] | {"seed": seed}),
            max_tokens=world.max_tokens,
            gamma=gamma,
            stops=world.stops if seed % 2 else (),
            logprobs=3 if seed % 2 else None,
        )


def check_equal(plain: Generation, chunks: list[Chunk], generation: Generation) -> None:
    """What was generated is what plain decoding generates, and the stream adds up to it."""
    assert generation.token_ids == plain.token_ids
    assert generation.text == plain.text
    assert generation.finish_reason == plain.finish_reason
    assert generation.logprobs == plain.logprobs
    assert generation.seed == plain.seed
    assert "".join(chunk.text for chunk in chunks) == plain.text
    assert tuple(token for chunk in chunks for token in chunk.token_ids) == plain.token_ids
    assert all(len(chunk.origins) == len(chunk.token_ids) for chunk in chunks)


def plain_decoding(world: World, setting: str, request: Request) -> Generation:
    """The request's tokens one by one."""
    key = (setting, request.params.seed)
    if key not in world.plain:
        _, world.plain[key] = run(world, make_drafter("none", world), request)
    return world.plain[key]


def cells(world: World, name: str, setting: str, one_in: int = 1) -> Iterator[tuple[Request, int]]:
    """Every request with every draft length; or, of so many neighbours, the one whose turn it is.

    Turns go round over seeds, draft lengths, drafters and settings. So a part of the cells still has each
    seed, and each draft length, with each drafter in each setting.
    """
    turn = DRAFTERS.index(name) + list(SETTINGS).index(setting)
    for row, request in enumerate(requests(world, setting)):
        for column, gamma in enumerate(world.gammas):
            if (row + column + turn) % one_in == 0:
                yield request, gamma


def num_compared(world: World, name: str, setting: str, one_in: int = 1) -> int:
    """How many tokens `check` compares."""
    return sum(
        len(plain_decoding(world, setting, request).token_ids)
        for request, _ in cells(world, name, setting, one_in)
    )


def check(world: World, name: str, setting: str, one_in: int = 1) -> list[Generation]:
    """One drafter under one setting, for these cells. Returns what was generated."""
    generations = []
    for request, gamma in cells(world, name, setting, one_in):
        plain = plain_decoding(world, setting, request)
        drafter = make_drafter(name, world, [*request.prompt_ids.tolist(), *plain.token_ids])
        chunks, generation = run(world, drafter, replace(request, gamma=gamma))
        check_equal(plain, chunks, generation)
        generations.append(generation)
    return generations

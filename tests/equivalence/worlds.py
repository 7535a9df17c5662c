"""The worlds of the grid: a target, a draft model that resembles it, and their tokenizer.

An engine joins the grid with one more entry in WORLDS; a real model (`smollm2_world`) has a coarser grid, in
test_real_models.py.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

from guessahead.engines.native.head import NativeHead
from guessahead.model import load
from guessahead.models import load as loading
from guessahead.models.convert import convert
from guessahead.types import Generation, Grammar
from tests.support.fake_text import letters
from tests.support.fakes import TinyEngine
from tests.support.second_tokenizer import with_other_tokenizer
from tests.support.tiny import tiny_gguf
from tests.support.tiny_head import tiny_head

# Of all worlds with bytes in their vocabulary: forced text, free text, choices, and a number that may go on.
JSON: Final = Grammar(
    "json_schema",
    json.dumps(
        {
            "type": "object",
            "properties": {
                "it": {"enum": ["the fox", "the for", "self"]},
                "of": {"type": "string", "maxLength": 4},
                "n": {"type": "integer"},
            },
            "required": ["it", "of"],
            "additionalProperties": False,
        }
    ),
)
# Of the world of letters: "AMNOPQIJ BCLMNOPQ..."; it may end after some of them.
LETTERS: Final = Grammar("regex", "((A|B|CC?)[E-H]{1,2}MNOPQ(IJ|IK|L)){2,3}S?([T-X]+J)?")


@dataclass(frozen=True)
class World:
    """engine, draft_engine: Engine; tokenizer: Tokenizer. max_tokens: per generation.
    draft_tokenizer: of the draft model, if its ids mean something else.

    head: a draft head of the target; None = a FakeHead, which reads the hidden states of a FakeEngine.
    grammar: of the settings that have one.
    plain: what plain decoding gave, by setting and seed, as far as it was asked for.
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
    grammar: Grammar = JSON
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
        grammar=LETTERS,
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

"""Numbers that are not finite.

Those of the target end the answer with an error that says where they arise, with every drafter at the same
token; those of a drafter's model neither end nor change it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import guessahead as ga
from guessahead.checkpoints.gguf import GGUFFile
from guessahead.drafters.base import DrafterResources
from guessahead.drafters.head import Head, HeadOptions
from guessahead.engines.native.head import NativeHead
from guessahead.errors import ModelWarning, NotFiniteError
from guessahead.measure.teacher import teacher_forced
from guessahead.protocols import DrafterSettings
from guessahead.runners.solo import SpeculativeDecoder
from guessahead.types import Chunk, Float32
from tests.support.fake_drafters import ConstantDrafter
from tests.support.fakes import request
from tests.support.families import FAMILIES
from tests.support.rewriting import broken, rewrite
from tests.support.second_tokenizer import with_other_tokenizer
from tests.support.tiny import tiny_gguf
from tests.support.tiny_head import tiny_head

NAN, INF = float("nan"), float("inf")
PROMPT = [40, 50, 60, 70, 50, 60]
LAYER_1 = "layer 1 of 2, at token 0 "
WHERE = {
    "token_embd": r"layer 0, or in the embedding, at token 2 \(id 60\)",
    "blk.1.attn_norm": LAYER_1,
    "blk.1.attn_q": LAYER_1,
    "blk.1.attn_k": LAYER_1,
    "blk.1.attn_v": LAYER_1,
    "blk.1.attn_output": LAYER_1,
    "blk.1.ffn_norm": LAYER_1,
    "blk.1.ffn_gate": LAYER_1,
    "blk.1.ffn_up": LAYER_1,
    "blk.1.ffn_down": LAYER_1,
    "output_norm": "behind the last layer",
    "output": "behind the last layer",
}
SAMPLED = {"temperature": 0.9, "repetition_penalty": 1.2, "seed": 1}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    folder = tmp_path_factory.mktemp("models")
    made: dict[str, Path] = {}

    def model(format: str) -> Path:
        if format not in made:
            made[format] = tiny_gguf(folder / f"{format}.gguf", format=format, seed=5).path
        return made[format]

    return model


@pytest.mark.parametrize("value", [NAN, INF, -INF])
@pytest.mark.parametrize("stem", WHERE)
@pytest.mark.parametrize(
    ("format", "activations"), [("F32", "int8"), ("Q8_0", "int8"), ("Q8_0", "f32"), ("Q4_1", "int8")]
)
def test_one_weight_ends_the_answer(
    sound: Any, tmp_path: Path, format: str, activations: Any, stem: str, value: float
) -> None:
    lm = ga.load(broken(sound(format), tmp_path / "m.gguf", stem, value), threads=1, activations=activations)
    for options in ({}, {**SAMPLED, "logprobs": 2}, {"logit_bias": {3: 1.0}}):
        with pytest.raises(NotFiniteError, match=f"'m' computes numbers that are not finite.*{WHERE[stem]}"):
            lm.generate(PROMPT, max_tokens=4, **options)  # type: ignore[arg-type]
    with pytest.raises(NotFiniteError, match=WHERE[stem]):
        list(teacher_forced(lm.runner.engine, np.array(PROMPT, np.int32), 4))  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.parametrize("format", ["F32", "Q8_0"])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_weight_of_every_family(tmp_path: Path, family: str, format: str) -> None:
    source = tiny_gguf(tmp_path / "sound.gguf", family, format=format, seed=5).path
    with GGUFFile.open(source) as file:
        stems = [name.removesuffix(".weight") for name in file.tensors if name.endswith(".weight")]
    for stem, value in product(stems, (NAN, INF, -INF)):
        if stem.startswith("rope"):  # checked when the model is loaded
            continue
        lm = ga.load(broken(source, tmp_path / "m.gguf", stem, value), threads=1)
        with pytest.raises(NotFiniteError):
            lm.generate(PROMPT, max_tokens=3, drafter="none")


@pytest.mark.parametrize("format", ["F16", "BF16", "Q4_0", "Q5_1", "Q2_K", "Q3_K", "Q6_K", "IQ4_XS"])
@pytest.mark.parametrize("stem", ["blk.1.attn_k", "blk.0.ffn_up", "output"])
def test_every_format(sound: Any, tmp_path: Path, format: str, stem: str) -> None:
    at = {"Q2_K": 80, "Q3_K": 108, "Q6_K": 208}.get(format, 0)
    path = broken(sound(format), tmp_path / "m.gguf", stem, NAN)
    assert at == 0 or _moved(path, stem, at)
    lm = ga.load(path, threads=1)
    with pytest.raises(NotFiniteError):
        lm.generate(PROMPT, max_tokens=4)


def _moved(path: Path, stem: str, at: int) -> bool:
    """Moves the scale that `broken` wrote to where the format has it."""
    data = bytearray(path.read_bytes())
    with GGUFFile.open(path) as file:
        tensor = file.tensors[f"{stem}.weight"]
        whole = np.frombuffer(tensor.data, np.uint8)
        place = bytes(data).find(whole.tobytes())
        row = min(60, tensor.shape[0] - 1) * len(whole) // tensor.shape[0]
    data[place + row + at : place + row + at + 2] = np.float16(NAN).tobytes()
    path.write_bytes(bytes(data))
    return place > 0


@pytest.mark.parametrize("cache", ["f32", "f16"])
def test_states_too_large_for_the_cache(sound: Any, tmp_path: Path, cache: Any) -> None:
    """Keys beyond 65,504: with f16 an error, not a token that is not seen."""

    def change(name: str, values: Float32) -> Float32:
        return values * np.float32(1e6) if "attn_k" in name else values

    lm = ga.load(rewrite(sound("F32"), tmp_path / "m.gguf", change), threads=1, cache=cache)
    if cache == "f32":
        assert len(lm.generate(PROMPT, max_tokens=8).token_ids) == 8
    else:
        with pytest.raises(NotFiniteError, match="first in layer 0"):
            lm.generate(PROMPT, max_tokens=8)


def test_states_whose_squares_are_too_large(sound: Any, tmp_path: Path) -> None:
    """Their norm would be 0 everywhere, and the answer token 0 for ever."""

    def change(name: str, values: Float32) -> Float32:
        return values * np.float32(1e25) if "token_embd" in name else values

    lm = ga.load(rewrite(sound("F32"), tmp_path / "m.gguf", change), threads=1)
    with pytest.raises(NotFiniteError, match="first in layer 0"):
        lm.generate(PROMPT, max_tokens=8)


def collect(chunks: Iterable[Chunk], into: list[int]) -> None:
    for chunk in chunks:
        into += chunk.token_ids


@pytest.mark.parametrize("sampling", [{}, SAMPLED], ids=["greedy", "sampled"])
def test_a_wrong_guess_of_a_broken_row_changes_nothing(
    sound: Any, tmp_path: Path, sampling: dict[str, Any]
) -> None:
    """The embedding of a token that the target never chooses is not a number; it is guessed in every step."""
    token = 99
    lm = ga.load(broken(sound("Q8_0"), tmp_path / "m.gguf", "token_embd", NAN, row=token), threads=1)
    options: Any = {"logprobs": 1, "logit_bias": {token: -100.0}, "min_tokens": 80, **sampling}
    plain = lm.generate(PROMPT, max_tokens=80, drafter="none", **options)
    engine = lm.runner.engine  # type: ignore[attr-defined]
    for gamma in (1, 5):
        asked = request(PROMPT, 80, gamma, **options)
        found = SpeculativeDecoder(engine, ConstantDrafter(token), lm.tokenizer).generate(asked)
        assert (found.token_ids, found.logprobs) == (plain.token_ids, plain.logprobs)
        assert found.stats.num_drafted >= 78


@pytest.mark.parametrize("drafter", ["none", "prompt-lookup", "suffix", "draft-model", "constant"])
@pytest.mark.parametrize("sampling", [{}, SAMPLED], ids=["greedy", "sampled"])
def test_with_every_drafter_the_answer_ends_at_the_same_token(
    sound: Any, tmp_path: Path, drafter: str, sampling: dict[str, Any]
) -> None:
    """The text goes on until a token is chosen whose embedding is not a number, that token included."""
    healthy = ga.load(sound("Q8_0"), threads=1)
    options: Any = {"min_tokens": 40, **sampling}
    expected = healthy.generate(PROMPT, max_tokens=40, drafter="none", **options).token_ids
    token = next(each for each in expected[12:] if each not in PROMPT)
    until = expected[: expected.index(token) + 1]
    lm = ga.load(broken(sound("Q8_0"), tmp_path / "m.gguf", "token_embd", NAN, row=token), threads=1)
    engine = lm.runner.engine  # type: ignore[attr-defined]
    asked = request(PROMPT, 40, 4, **options)
    if drafter == "constant":
        steps: Any = SpeculativeDecoder(engine, ConstantDrafter(token), lm.tokenizer).stream(asked)
    else:
        second = healthy.runner if drafter == "draft-model" else None
        steps = lm.runner.stream(asked, DrafterSettings(drafter, {}, second))
    found: list[int] = []
    with pytest.raises(NotFiniteError, match=rf"at token {len(PROMPT) + len(until) - 1} \(id {token}\)"):
        collect(steps, found)
    assert tuple(found) == until


@pytest.mark.parametrize("acceptance", ["identical", "rejection"])
@pytest.mark.parametrize("stem", ["output", "blk.0.attn_v", "blk.1.ffn_norm"])
@pytest.mark.parametrize("other", [False, True], ids=["same tokenizer", "other tokenizer"])
def test_a_broken_draft_model_neither_ends_nor_changes_the_answer(
    sound: Any, tmp_path: Path, other: bool, stem: str, acceptance: Any
) -> None:
    lm = ga.load(sound("Q8_0"), threads=1)
    path = broken(sound("Q8_0"), tmp_path / "draft.gguf", stem, NAN)
    if other:
        path = with_other_tokenizer(path, tmp_path / "other.gguf")
    draft = ga.load(path, threads=1)
    drafters = ["portfolio"] if other and acceptance == "rejection" else ["draft-model", "portfolio"]
    for options in ({}, SAMPLED):
        if options and other and acceptance == "rejection":
            continue  # drafts as text cannot be judged so
        plain = lm.generate(PROMPT, max_tokens=30, drafter="none", acceptance=acceptance, **options)  # type: ignore[arg-type]
        for drafter in drafters:
            with pytest.warns(
                ModelWarning, match="draft.*computes numbers that are not finite.*makes no guesses"
            ) as seen:
                found = lm.generate(
                    PROMPT,
                    max_tokens=30,
                    drafter=drafter,
                    draft_model=draft,
                    gamma=4,
                    acceptance=acceptance,
                    **options,
                )  # type: ignore[arg-type]
            assert len(seen) == 1
            assert found.token_ids == plain.token_ids


@pytest.mark.parametrize("acceptance", ["identical", "rejection"])
def test_a_broken_head_neither_ends_nor_changes_the_answer(sound: Any, acceptance: Any) -> None:
    lm = ga.load(sound("Q8_0"), threads=1)
    engine = lm.runner.engine  # type: ignore[attr-defined]
    files = tiny_head(engine, "Q8_0")
    files.norms["norm"][3] = NAN
    head = NativeHead(files, engine.head_host)
    for options in ({}, SAMPLED):
        asked = request(PROMPT, 30, 4, acceptance=acceptance, **options)
        drafter = Head(HeadOptions(), DrafterResources(engine, head=lambda _: head))
        with pytest.warns(ModelWarning, match="the draft head computes numbers that are not finite") as seen:
            found = SpeculativeDecoder(engine, drafter, lm.tokenizer).generate(asked)
        assert len(seen) == 1
        plain = lm.generate(PROMPT, max_tokens=30, drafter="none", acceptance=acceptance, **options)  # type: ignore[arg-type]
        assert found.token_ids == plain.token_ids


def test_rejection_sampling_ends_too(sound: Any, tmp_path: Path) -> None:
    draft = ga.load(sound("Q8_0"), threads=1)
    lm = ga.load(broken(sound("Q8_0"), tmp_path / "m.gguf", "token_embd", NAN, row=99), threads=1)
    lengths = set()
    for seed in range(20):
        options: Any = {"temperature": 3.0, "seed": seed, "logit_bias": {99: 20.0}, "min_tokens": 200}
        stream = lm.stream(
            PROMPT,
            max_tokens=200,
            drafter="draft-model",
            draft_model=draft,
            acceptance="rejection",
            gamma=4,
            **options,
        )
        tokens: list[int] = []
        with pytest.raises(NotFiniteError, match=r"at token \d+ \(id 99\)"):
            collect(stream, tokens)
        assert tokens.index(99) == len(tokens) - 1, "the token itself is the last one"
        lengths.add(len(tokens))
    assert len(lengths) > 5

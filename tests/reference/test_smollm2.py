"""SmolLM2-135M-Instruct (Q4_1): as near to the truth as transformers in float32, and the same greedy text.

The f32 route on quantised weights is slow, so it is first shown to give the bits of an F32 file with the
dequantised weights; the rest then uses that file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from transformers import PreTrainedModel

from guessahead.checkpoints.gguf import GGUFFile
from guessahead.engines.native import NativeEngine
from guessahead.measure.bench.workload import default_tasks
from guessahead.models.convert import convert
from guessahead.models.download import fetch
from guessahead.text.chat_template import ChatTemplate
from guessahead.text.tokenizer import Tokenizer
from guessahead.types import Int32
from tests.conftest import Report
from tests.reference import engine as ours
from tests.reference import models
from tests.reference.measure import Errors, divergence, errors

pytestmark = [pytest.mark.reference, pytest.mark.model]

NUM_POSITIONS = 512
NUM_PROMPTS, NUM_TOKENS = 20, 128
MOST_DIVERGENCE = 0.006  # nats per token, int8 to f32; measured 0.0027
# llama.cpp's own, of the same text: `llama-perplexity --kl-divergence -c 512` (0.6.0), the Q4_1 file against
# an F32 file of its weights (`guessahead convert`). It takes the second half of a context.
LLAMA_CPP_DIVERGENCE = 0.0021
SECOND_HALF = slice(NUM_POSITIONS // 2, NUM_POSITIONS - 1)


@dataclass(frozen=True)
class Model:
    """path: the Q4_1 file. engine: on an F32 file of its dequantised weights."""

    path: Path
    engine: NativeEngine
    text: Int32
    prompts: list[Int32]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    path = fetch("smollm2-135m")
    float_path = tmp_path_factory.mktemp("smollm2") / "f32.gguf"
    convert(path, float_path, "F32")
    with GGUFFile.open(path) as file:
        tokenizer = Tokenizer.from_gguf(file.metadata)
        template = ChatTemplate.from_gguf(file.metadata, tokenizer)
    questions = [task.prompt for task in default_tasks()]
    prompts = [
        tokenizer.encode(template.render([{"role": "user", "content": question}]), special=True)
        for question in questions[:NUM_PROMPTS]
    ]
    yield Model(
        path=path,
        engine=ours.load(float_path, "f32", 1024),
        text=np.array(tokenizer.encode("\n\n".join(questions)), np.int32)[:NUM_POSITIONS],
        prompts=[np.array(prompt, np.int32) for prompt in prompts],
    )
    float_path.unlink()


@pytest.fixture(scope="module")
def float32(model: Model) -> PreTrainedModel:
    return models.float32_model("llama", *models.read_gguf(model.path))


@pytest.fixture(scope="module")
def found(model: Model, float32: PreTrainedModel) -> Errors:
    true = models.logits_of(models.float64_model("llama", *models.read_gguf(model.path)), model.text)
    return errors(ours.all_logits(model.engine, model.text), models.logits_of(float32, model.text), true)


def test_the_f32_route_gives_the_bits_of_an_f32_file(model: Model) -> None:
    route = ours.load(model.path, "f32", 1024)
    np.testing.assert_array_equal(
        ours.hidden_states(route, model.text, NUM_POSITIONS),
        ours.hidden_states(model.engine, model.text, NUM_POSITIONS),
    )
    few = model.text[:32]
    np.testing.assert_array_equal(ours.all_logits(route, few), ours.all_logits(model.engine, few))


def test_as_near_to_the_truth_as_transformers(found: Errors, report: Report) -> None:
    report(str(found))
    found.check()


def test_greedy_text_is_that_of_transformers(
    model: Model, float32: PreTrainedModel, found: Errors, report: Report
) -> None:
    """transformers reads each of our texts and would have gone on at every token as we did."""
    texts = ours.generate_together(model.engine, model.prompts, NUM_TOKENS)
    # Two logits that lie closer than this may change places without anyone being wrong.
    margin = 2 * (found.ours + found.theirs)
    num_different, gaps = 0, []
    for prompt, tokens in zip(model.prompts, texts, strict=True):
        assert len(tokens) == len(prompt) + NUM_TOKENS
        logits = models.logits_of(float32, tokens[:-1])[len(prompt) - 1 :]
        chosen = tokens[len(prompt) :]
        best = np.sort(logits, axis=1)[:, -2:]
        gap = best[:, 1] - best[:, 0]
        different = logits.argmax(axis=1) != chosen
        num_different += int(different.sum())
        gaps += gap[different].tolist()
        rows = np.flatnonzero(different)
        behind = best[rows, 1] - logits[rows, chosen[rows]]
        assert np.all(gap[different] <= margin)
        assert np.all(behind <= margin)  # and what we chose is the runner-up, not some third
    report(
        f"{len(texts)} texts of {NUM_TOKENS} greedy tokens, {num_different} differ from transformers"
        + (
            f" where its two best logits are {max(gaps):.1e} apart at most (margin {margin:.1e})"
            if gaps
            else ""
        )
    )


def test_int8_stays_close_to_f32(model: Model, report: Report) -> None:
    f32 = ours.all_logits(model.engine, model.text)
    int8 = ours.all_logits(ours.load(model.path, "int8", 1024), model.text)
    nats = divergence(f32, int8)
    same = float(np.mean(f32.argmax(axis=1) == int8.argmax(axis=1)))
    half = divergence(f32[SECOND_HALF], int8[SECOND_HALF])
    report(
        f"int8 activations: KL to f32 {nats:.1e} nats per token, same best token at {same:.1%}; "
        f"in the second half {half:.1e}, where llama.cpp has {LLAMA_CPP_DIVERGENCE:.1e}"
    )
    assert 0 < nats < MOST_DIVERGENCE
    assert half < 1.5 * LLAMA_CPP_DIVERGENCE

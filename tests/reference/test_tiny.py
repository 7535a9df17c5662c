"""Tiny models on the f32 route are as near to the truth as transformers in float32 is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from guessahead.types import Int32
from tests.conftest import Report
from tests.reference import engine as ours
from tests.reference import models
from tests.reference.measure import Errors, Logits, errors
from tests.support.families import FAMILIES
from tests.support.tiny import TinyModel, tiny_gguf

pytestmark = pytest.mark.reference

NUM_POSITIONS = 512
SHORT_TEXTS = (64, 4)  # texts, positions: few enough activations that many texts have none near half-way
HALF_WAY = 1e-4  # of a step: nearer than this, float32 may round the other way
SAME = 1e-6  # of a row's length
# Every shape has something of its own: grouped, single or separate key-value heads; heads of 16 to 64 (whose
# halves fill no register, or several); heads wider than the model divides into; tied or own output matrix;
# a vocabulary that is no multiple of a tile; every weight format.
SHAPES: dict[str, dict[str, Any]] = {
    "f32-grouped": {"format": "F32"},
    "f32-wide-heads": {"format": "F32", "head_dim": 40, "rope_base": 5e5},
    "f16-separate": {"format": "F16", "kv_heads": 4, "vocab": 331},
    "bf16-single": {"format": "BF16", "kv_heads": 1, "tied": True},
    "q8_0-24": {"format": "Q8_0", "width": 96, "heads": 4, "kv_heads": 2},
    "q4_1-32": {"format": "Q4_1", "width": 192, "heads": 6, "kv_heads": 2, "tied": True, "layers": 3},
    "q5_0-40": {"format": "Q5_0", "width": 160, "heads": 4, "kv_heads": 2, "rope_base": 1e6},
    "q4_k-64": {"format": "Q4_K", "formats": {"ffn_down": "Q6_K", "token_embd": "Q8_0"}},
    "q6_k-32": {"format": "Q6_K", "heads": 8, "kv_heads": 2, "formats": {"attn_v": "Q5_0", "ffn_up": "F16"}},
    "q5_k-64": {"format": "Q5_K", "formats": {"ffn_down": "Q2_K", "token_embd": "Q3_K", "ffn_up": "Q5_1"}},
    "iq4_xs-64": {"format": "IQ4_XS", "formats": {"ffn_down": "IQ4_NL", "attn_v": "Q4_0"}},
}
ONLY_LLAMA = ("f32-wide-heads",)  # qwen2 has heads of width / heads only
CASES = [
    (arch, name)
    for arch in ("llama", "qwen2")
    for name in SHAPES
    if arch == "llama" or name not in ONLY_LLAMA
]
# The other architectures: what they have of their own does not depend on the format.
CASES += [
    (arch, name)
    for arch, family in FAMILIES.items()
    if arch not in ("llama", "qwen2")
    for name in ("f32-wide-heads" if family.has_head_dim else "f32-grouped", "q8_0-24")
]
FAULTS = [
    pytest.param(arch, fault, id=f"{arch}-{number}")
    for arch, family in FAMILIES.items()
    for number, fault in enumerate(family.faults)
]


def text(model: TinyModel) -> Int32:
    return np.random.default_rng(model.vocab).integers(0, model.vocab, NUM_POSITIONS).astype(np.int32)


@pytest.fixture(scope="module", params=CASES, ids=lambda case: "-".join(case))
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TinyModel]:
    arch, name = request.param
    path: Path = tmp_path_factory.mktemp("reference") / "tiny.gguf"
    yield tiny_gguf(path, arch, **SHAPES[name])
    path.unlink()


def measure(model: TinyModel, **changed: object) -> Errors:
    """changed: settings of the reference that differ from those of the model."""
    settings = (model.arch, model.config() | changed, model.original_weights())
    engine = ours.load(model.path, "f32", model.context)
    return errors(
        ours.all_logits(engine, text(model)),
        models.logits_of(models.float32_model(*settings), text(model)),
        models.logits_of(models.float64_model(*settings), text(model)),
    )


def test_as_near_to_the_truth_as_transformers(model: TinyModel, report: Report) -> None:
    found = measure(model)
    report(str(found))
    found.check()


def test_every_way_to_feed_a_text_gives_the_same_bits(model: TinyModel) -> None:
    engine, tokens = ours.load(model.path, "f32", model.context), text(model)
    few = tokens[:100]
    np.testing.assert_array_equal(ours.all_logits(engine, tokens)[:100], ours.one_by_one(engine, few))
    whole = ours.hidden_states(engine, tokens, NUM_POSITIONS)
    for chunk in (7, 64):
        np.testing.assert_array_equal(ours.hidden_states(engine, tokens, chunk), whole)


def apart(ours: Logits, true: Logits) -> npt.NDArray[np.float64]:
    """Per text, the largest distance of a row relative to its length: [texts, ..., width] -> [texts]."""
    distances = np.linalg.norm(ours - true, axis=-1) / np.linalg.norm(true, axis=-1)
    largest: npt.NDArray[np.float64] = distances.reshape(len(ours), -1).max(axis=1)
    return largest


def int8_distances(
    model: TinyModel, quantised: set[str], levels: int = 127
) -> Iterator[tuple[str, Any, Any]]:
    """Per layer, and for the output head: its name, and per text how far int8 is from float64 with the same
    rounding, and how near to half-way between two multiples the float64 model came.

    Every layer starts from the states that int8 had before it, so that nothing adds up.
    """
    texts = np.random.default_rng(model.vocab).integers(0, model.vocab, SHORT_TEXTS).astype(np.int32)
    states, logits = ours.short_texts(ours.load(model.path, "int8", model.context), texts)
    rounding = models.float64_model(model.arch, model.config(), model.original_weights())
    nearest = models.quantise_inputs(rounding, quantised, levels)
    left, true = models.each_layer(rounding, texts, states)
    for name, found, wanted in [
        *((f"layers.{i}.", *pair) for i, pair in enumerate(zip(states, left, strict=True))),
        ("lm_head", logits, true[:, -1]),
    ]:
        near = [distance.numpy() for module, distance in nearest.items() if name in module]
        yield name, apart(found, wanted), np.min([np.full(len(texts), 0.5), *near], axis=0)


def test_int8_does_what_it_says(model: TinyModel, report: Report) -> None:
    """Every layer gives what a float64 model gives that rounds in the same places, to float32's precision.

    Only what lies half-way between two multiples, but for an error of float32, may be rounded otherwise. A
    norm at the end of a branch and the layers behind magnify that one step until hardly anything is the same
    (as they do for two float64 models whose embeddings are 1e-7 apart), so whole passes cannot be compared.
    """
    quantised = models.quantised_names(model.path, model.arch)
    if not quantised:
        f32, int8 = (
            ours.all_logits(ours.load(model.path, route, model.context), text(model))
            for route in ("f32", "int8")
        )
        np.testing.assert_array_equal(int8, f32)
        return
    largest, num_clear = 0.0, []
    for name, distance, nearest in int8_distances(model, quantised):
        clear = nearest > HALF_WAY
        assert np.all(distance[clear] < SAME), (name, distance, nearest)
        assert np.mean(distance < SAME) > 0.85, (name, distance)
        largest, num_clear = max(largest, distance[clear].max()), [*num_clear, int(clear.sum())]
    report(f"{min(num_clear)} of {SHORT_TEXTS[0]} texts clear of half-way, largest distance {largest:.1e}")
    assert min(num_clear) >= SHORT_TEXTS[0] // 5


def test_int8_with_another_step_is_noticed(tmp_path: Path) -> None:
    model = tiny_gguf(tmp_path / "tiny.gguf", "gemma2", **SHAPES["q8_0-24"])
    quantised = models.quantised_names(model.path, model.arch)
    for _, distance, _ in int8_distances(model, quantised, levels=126):
        assert np.all(distance > SAME)


@pytest.mark.parametrize(
    "fault",
    [{"rms_norm_eps": 2e-5}, {"rope_theta": 10010.0}, {"hidden_act": "gelu_pytorch_tanh"}],
    ids=["epsilon", "rope", "activation"],
)
def test_a_small_fault_is_noticed(tmp_path: Path, fault: dict[str, object]) -> None:
    found = measure(tiny_gguf(tmp_path / "tiny.gguf", format="F32"), **fault)
    with pytest.raises(AssertionError):
        found.check()


@pytest.mark.parametrize(("arch", "fault"), FAULTS)
def test_what_an_architecture_has_of_its_own_is_noticed(
    tmp_path: Path, arch: str, fault: dict[str, object]
) -> None:
    found = measure(tiny_gguf(tmp_path / "tiny.gguf", arch, format="F32"), **fault)
    with pytest.raises(AssertionError):
        found.check()

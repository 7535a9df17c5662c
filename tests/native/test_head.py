"""A head's passes: bits that depend on the rows before, not on how they were cut or who computed them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guessahead import _native
from guessahead.engines.native import NativeEngine
from guessahead.errors import ModelError
from guessahead.heads import NativeHead
from guessahead.types import Float32, Int32
from tests.native.rows import load
from tests.tiny import NUM_TOKENS, TinyModel, tiny_gguf
from tests.tiny_head import NUM_DRAFT_IDS, tiny_head

NUM_ROWS = 131  # two borders of passes (64 rows) and of pages (64 positions)
# Format of the layer, of the output, and the route; int8 where the weights are quantised.
KINDS = (
    ("F32", "BF16", "f32"),
    ("F16", "F32", "int8"),
    ("Q8_0", "Q5_0", "int8"),
    ("Q4_1", "Q8_0", "f32"),
    ("Q4_K", "Q6_K", "int8"),
)


@pytest.fixture(scope="module", params=KINDS, ids="-".join)
def kind(request: pytest.FixtureRequest) -> tuple[str, str, str]:
    found: tuple[str, str, str] = request.param
    return found


@pytest.fixture(scope="module")
def model(kind: tuple[str, str, str], tmp_path_factory: pytest.TempPathFactory) -> TinyModel:
    return tiny_gguf(
        tmp_path_factory.mktemp("tiny") / "m.gguf", format="Q8_0", width=256 if "_K" in kind[0] else 64
    )


def head_of(model: TinyModel, kind: tuple[str, str, str], **settings: Any) -> NativeHead:
    engine = load(model, **{"threads": 1, "activations": kind[2]} | settings)
    assert engine.neighbour is not None
    return NativeHead(tiny_head(engine, kind[0], {"lm_head": kind[1]}), engine.neighbour)


@pytest.fixture(scope="module")
def head(model: TinyModel, kind: tuple[str, str, str]) -> NativeHead:
    return head_of(model, kind)


@pytest.fixture(scope="module")
def rows(model: TinyModel) -> tuple[Int32, Float32]:
    rng = np.random.default_rng(7)
    tokens = rng.integers(0, NUM_TOKENS, NUM_ROWS).astype(np.int32)
    return tokens, rng.standard_normal((NUM_ROWS, 2 * model.width)).astype(np.float32)


Result = tuple[bytes, bytes]


def as_bytes(result: tuple[Float32, Float32]) -> Result:
    return result[0].tobytes(), result[1].tobytes()


def guesses(head: NativeHead, sequence: _native.Sequence, state: Float32, tokens: list[int]) -> list[Result]:
    """What comes of each of the guesses, one behind the other."""
    found = []
    for token in tokens:
        state, logits = head.guess(sequence, token, state)
        found.append(as_bytes((state, logits)))
    return found


@pytest.fixture(scope="module")
def one_by_one(head: NativeHead, rows: tuple[Int32, Float32]) -> list[Result]:
    sequence, (tokens, fused) = head.new_sequence(), rows
    return [as_bytes(head.read(sequence, tokens[i : i + 1], fused[i : i + 1])) for i in range(NUM_ROWS)]


def test_what_a_pass_yields(head: NativeHead, one_by_one: list[Result], model: TinyModel) -> None:
    state, logits = (np.frombuffer(part, np.float32) for part in one_by_one[0])
    assert len(state) == model.width
    assert len(logits) == NUM_DRAFT_IDS
    assert len(set(one_by_one)) == NUM_ROWS
    assert np.isfinite(logits).all()
    assert np.ptp(logits) > 1


@pytest.mark.parametrize("num", [1, 2, 5, 63, 64, 65, 128, NUM_ROWS])
def test_any_number_of_rows(
    head: NativeHead, one_by_one: list[Result], rows: tuple[Int32, Float32], num: int
) -> None:
    tokens, fused = rows
    sequence = head.new_sequence()
    assert as_bytes(head.read(sequence, tokens[:num], fused[:num])) == one_by_one[num - 1]
    assert sequence.length == num


def test_any_cut_and_what_follows(
    head: NativeHead, one_by_one: list[Result], rows: tuple[Int32, Float32]
) -> None:
    tokens, fused = rows
    whole = head.new_sequence()
    state, _ = head.read(whole, tokens, fused)
    expected = guesses(head, whole, state, [5, 300, 7])
    for cuts in ([1, 2, 70], [64, 130], [7, 8, 9, 10]):
        sequence, begin = head.new_sequence(), 0
        for end in [*cuts, NUM_ROWS]:
            state, logits = head.read(sequence, tokens[begin:end], fused[begin:end])
            assert as_bytes((state, logits)) == one_by_one[end - 1]
            begin = end
        assert guesses(head, sequence, state, [5, 300, 7]) == expected


def test_guesses_after_a_rollback(head: NativeHead, rows: tuple[Int32, Float32]) -> None:
    """What was guessed before, and how far, leaves no trace."""
    tokens, fused = rows
    sequence = head.new_sequence()
    for num, wrong in ((30, [1, 2, 3, 4]), (62, [9] * 8), (64, [11]), (100, [])):
        begin = sequence.length
        state, _ = head.read(sequence, tokens[begin:num], fused[begin:num])
        guesses(head, sequence, state, wrong)
        assert sequence.length == num + len(wrong)
        sequence.rollback(num)
        again = guesses(head, sequence, state, [8, 6])
        fresh = head.new_sequence()
        state, _ = head.read(fresh, tokens[:num], fused[:num])
        assert guesses(head, fresh, state, [8, 6]) == again
        sequence.rollback(num)


def test_two_sequences_do_not_meet(
    head: NativeHead, one_by_one: list[Result], rows: tuple[Int32, Float32]
) -> None:
    tokens, fused = rows
    first, second = head.new_sequence(), head.new_sequence()
    for i in range(3):
        head.read(second, tokens[5 - i : 6 - i], fused[i : i + 1])
        assert as_bytes(head.read(first, tokens[i : i + 1], fused[i : i + 1])) == one_by_one[i]


@pytest.mark.parametrize(
    "settings", [{"threads": 2}, {"threads": 3}, *({"isa": isa} for isa in _native.isas())], ids=str
)
def test_any_thread_count_and_instruction_set(
    model: TinyModel,
    kind: tuple[str, str, str],
    one_by_one: list[Result],
    head: NativeHead,
    rows: tuple[Int32, Float32],
    settings: dict[str, Any],
) -> None:
    other = head_of(model, kind, **settings)
    (tokens, fused), found = rows, []
    for each in (head, other):
        sequence = each.new_sequence()
        state, logits = each.read(sequence, tokens[:70], fused[:70])
        assert as_bytes((state, logits)) == one_by_one[69]
        found.append(guesses(each, sequence, state, [5, 300, 7]))
    assert found[0] == found[1]


def test_a_context_that_is_full_is_refused(tmp_path: Path) -> None:
    model = tiny_gguf(tmp_path / "m.gguf")
    head = head_of(model, KINDS[0], context=5)
    sequence = head.new_sequence()
    zeros = np.zeros((5, 2 * model.width), np.float32)
    state, _ = head.read(sequence, np.arange(5, dtype=np.int32), zeros)
    with pytest.raises(ValueError, match="context"):
        head.guess(sequence, 1, state)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> NativeEngine:
    return load(tiny_gguf(tmp_path_factory.mktemp("small") / "m.gguf"), threads=1)


def test_weights_of_another_target_are_refused(small: NativeEngine, tmp_path: Path) -> None:
    neighbour = small.neighbour
    assert neighbour is not None
    wide = load(tiny_gguf(tmp_path / "wide.gguf", width=128), threads=1)
    larger = load(tiny_gguf(tmp_path / "larger.gguf", vocab=NUM_TOKENS + 100), threads=1)
    files = tiny_head(larger)
    files.draft_ids[-1] = NUM_TOKENS
    with pytest.raises(ModelError, match="target of other sizes"):
        NativeHead(tiny_head(wide), neighbour)
    with pytest.raises(ModelError, match="target of other sizes"):
        NativeHead(tiny_head(small, layers=(0, 2)), neighbour)
    with pytest.raises(ModelError, match="another vocabulary"):
        NativeHead(files, neighbour)


def test_a_format_without_kernels_is_refused(small: NativeEngine) -> None:
    assert small.neighbour is not None
    files = tiny_head(small)
    config = replace(files.config, formats=dict(files.config.formats) | {"fc": "Q8_K"})
    with pytest.raises(ModelError, match="weights are Q8_K, which has no kernels"):
        NativeHead(replace(files, config=config), small.neighbour)

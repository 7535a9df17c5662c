"""A head's passes: bits that depend on the rows before, not on how they were cut or who computed them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guessahead import _native
from guessahead.engines.native import NativeEngine
from guessahead.engines.native.head import NativeHead
from guessahead.errors import ModelError
from guessahead.types import Float32, Int32
from tests.native.rows import load
from tests.support.tiny import NUM_TOKENS, TinyModel, tiny_gguf
from tests.support.tiny_head import NUM_DRAFT_IDS, tiny_head

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
    assert engine.head_host is not None
    return NativeHead(tiny_head(engine, kind[0], {"lm_head": kind[1]}), engine.head_host)


@pytest.fixture(scope="module")
def head(model: TinyModel, kind: tuple[str, str, str]) -> NativeHead:
    return head_of(model, kind)


@pytest.fixture(scope="module")
def rows(model: TinyModel) -> tuple[Int32, Float32]:
    rng = np.random.default_rng(7)
    tokens = rng.integers(0, NUM_TOKENS, NUM_ROWS).astype(np.int32)
    return tokens, rng.standard_normal((NUM_ROWS, 2 * model.width)).astype(np.float32)


Result = tuple[bytes, bytes]
# Guesses behind the last row that was read: (token, number of the guess before it, -1 = that row).
CHAIN = [(5, -1), (300, 0), (7, 1)]
TREE = [(5, -1), (9, -1), (300, 0), (301, 0), (7, 2), (8, 3), (6, 1)]


def as_bytes(state: Float32, logits: Float32) -> Result:
    return state.tobytes(), logits.tobytes()


def read(
    head: NativeHead, sequence: _native.Sequence, rows: tuple[Int32, Float32], begin: int, end: int
) -> tuple[Result, Float32, Float32]:
    """The result as bytes, what was made of the hidden states, and the head's state."""
    entry, state, logits = sequence.read(rows[0][begin:end], rows[1][begin:end])
    return as_bytes(state, logits), entry, state


def grown(
    head: NativeHead,
    sequence: _native.Sequence,
    last: int,
    begun: tuple[Result, Float32, Float32],
    guesses: list[tuple[int, int]],
) -> list[Result]:
    """What comes of each of the guesses, which are made level by level, as the drafter makes them."""
    _, entry, state = begun
    levels: list[int] = []
    for _, parent in guesses:
        levels.append(0 if parent < 0 else levels[parent] + 1)
    states, by_row = state, {}
    tokens, given, parents, row_of = [last], [entry[0]], [-1], {-1: 0}
    for level in range(max(levels, default=-1) + 1):
        for node, (token, parent) in enumerate(guesses):
            if levels[node] == level:
                row_of[node] = len(tokens)
                tokens.append(token)
                given.append(states[row_of[parent]])
                parents.append(row_of[parent])
        arrays = np.array(tokens, np.int32), np.stack(given), np.array(parents, np.int32)
        states, by_row = sequence.grow(*arrays)
    return [as_bytes(states[row_of[node]], by_row[row_of[node]]) for node in range(len(guesses))]


@pytest.fixture(scope="module")
def one_by_one(head: NativeHead, rows: tuple[Int32, Float32]) -> list[Result]:
    sequence = head.new_sequence()
    return [read(head, sequence, rows, i, i + 1)[0] for i in range(NUM_ROWS)]


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
    sequence = head.new_sequence()
    assert read(head, sequence, rows, 0, num)[0] == one_by_one[num - 1]
    assert sequence.length == num


def test_any_cut_and_what_follows(
    head: NativeHead, one_by_one: list[Result], rows: tuple[Int32, Float32]
) -> None:
    whole, last = head.new_sequence(), int(rows[0][-1])
    expected = grown(head, whole, last, read(head, whole, rows, 0, NUM_ROWS), TREE)
    for cuts in ([1, 2, 70], [64, 130], [7, 8, 9, 10]):
        sequence, begin = head.new_sequence(), 0
        for end in [*cuts, NUM_ROWS]:
            begun = read(head, sequence, rows, begin, end)
            assert begun[0] == one_by_one[end - 1]
            begin = end
        assert grown(head, sequence, last, begun, TREE) == expected


@pytest.mark.parametrize("num", [1, 62, 63, 64, 65, 100])
def test_a_guess_knows_its_path_and_nothing_else(
    head: NativeHead, rows: tuple[Int32, Float32], num: int
) -> None:
    """Whatever other guesses the tree holds, and as if the guesses of its path had been read."""
    sequence, last = head.new_sequence(), int(rows[0][num - 1])
    begun = read(head, sequence, rows, 0, num)
    found = grown(head, sequence, last, begun, TREE)
    assert len(set(found)) == len(TREE)
    assert sequence.length == num
    chain = grown(head, sequence, last, begun, CHAIN)
    assert chain == [found[0], found[2], found[4]]
    assert grown(head, sequence, last, begun, [(9, -1), (6, 0)]) == [found[1], found[6]]


def test_guesses_leave_no_trace(
    head: NativeHead, one_by_one: list[Result], rows: tuple[Int32, Float32]
) -> None:
    """What was guessed before, and how far."""
    sequence, begin = head.new_sequence(), 0
    for num, wrong in ((30, TREE), (62, CHAIN), (64, [(11, -1)]), (100, [])):
        begun, last = read(head, sequence, rows, begin, num), int(rows[0][num - 1])
        assert begun[0] == one_by_one[num - 1]
        grown(head, sequence, last, begun, wrong)
        again = grown(head, sequence, last, begun, CHAIN)
        fresh = head.new_sequence()
        assert grown(head, fresh, last, read(head, fresh, rows, 0, num), CHAIN) == again
        begin = num


def test_two_sequences_do_not_meet(
    head: NativeHead, one_by_one: list[Result], rows: tuple[Int32, Float32]
) -> None:
    first, second = head.new_sequence(), head.new_sequence()
    for i in range(3):
        read(head, second, rows, 5 - i, 6 - i)
        assert read(head, first, rows, i, i + 1)[0] == one_by_one[i]


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
    other, found = head_of(model, kind, **settings), []
    for each in (head, other):
        sequence = each.new_sequence()
        begun = read(each, sequence, rows, 0, 70)
        assert begun[0] == one_by_one[69]
        found.append(grown(each, sequence, int(rows[0][69]), begun, TREE))
    assert found[0] == found[1]


def test_a_context_that_is_full_is_refused(tmp_path: Path) -> None:
    model = tiny_gguf(tmp_path / "m.gguf")
    head = head_of(model, KINDS[0], context=5)
    sequence = head.new_sequence()
    begun = read(
        head, sequence, (np.arange(6, dtype=np.int32), np.zeros((6, 2 * model.width), np.float32)), 0, 4
    )
    assert len(grown(head, sequence, 3, begun, CHAIN[:1])) == 1
    with pytest.raises(ValueError, match="context"):
        grown(head, sequence, 3, begun, CHAIN[:2])


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> NativeEngine:
    return load(tiny_gguf(tmp_path_factory.mktemp("small") / "m.gguf"), threads=1)


def test_weights_of_another_target_are_refused(small: NativeEngine, tmp_path: Path) -> None:
    neighbour = small.head_host
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
    assert small.head_host is not None
    files = tiny_head(small)
    config = replace(files.config, formats=dict(files.config.formats) | {"fc": "Q8_K"})
    with pytest.raises(ModelError, match="no kernels for this head's formats: Q8_K"):
        NativeHead(replace(files, config=config), small.head_host)

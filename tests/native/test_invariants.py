"""Row independence: a row's bits depend on its token, its position and its ancestors alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guessahead import _native
from guessahead.engines.native import NativeEngine
from guessahead.protocols import PassOutput, Rows
from tests.native.rows import Truth, cache_of, greedy, hidden_of, load, one_by_one
from tests.support.families import FAMILIES
from tests.support.tiny import TinyModel, tiny_gguf

FORMATS = ("F32", "F16", "BF16", "Q8_0", "Q4_1", "Q5_0", "Q4_K", "Q6_K")
SHAPES: dict[str, dict[str, Any]] = {
    "llama": {"arch": "llama"},
    "qwen2": {"arch": "qwen2"},
    "llama-one-kv-head": {"arch": "llama", "heads": 8, "kv_heads": 1, "head_dim": 32, "tied": True},
}
ODD_HEADS = {"arch": "llama", "heads": 3, "kv_heads": 1, "head_dim": 40, "tied": True}  # not for blocks of 32
MODELS = [
    *((shape, format, "f32") for shape in SHAPES for format in FORMATS),
    *(("llama", format, "f32") for format in _native.FORMATS if format not in FORMATS),
    *((family, "Q8_0", "f32") for family in FAMILIES if family not in SHAPES),
    ("odd", "F32", "f32"),
    ("llama", "Q4_1", "f16"),
    ("odd", "F32", "f16"),
]
PROMPT = [5, 9, 40, 77, 5, 9, 40, 200, 33]
CACHES: dict[Path, str] = {}
NUM_GREEDY = 140  # so that sequences cross two page borders


def shape_of(name: str) -> dict[str, Any]:
    if name == "odd":
        return ODD_HEADS
    return SHAPES.get(name, {"arch": name})


@pytest.fixture(scope="module", params=MODELS, ids="-".join)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> TinyModel:
    shape, format, cache = request.param
    path = tmp_path_factory.mktemp("tiny") / "m.gguf"
    CACHES[path] = cache
    return tiny_gguf(path, format=format, seed=3, **shape_of(shape))


@pytest.fixture(scope="module")
def engine(model: TinyModel) -> NativeEngine:
    return load(model, threads=2, cache=CACHES[model.path])


@pytest.fixture(scope="module")
def truth(engine: NativeEngine) -> Truth:
    return one_by_one(engine, PROMPT, NUM_GREEDY)


def check_rows(truth: Truth, positions: list[int], output: PassOutput, logits_for: set[int]) -> None:
    """positions[row]: the place in the truth that a row repeats. logits_for: rows that must have logits."""
    assert output.hidden is not None
    for row, position in enumerate(positions):
        assert hidden_of(output.hidden, row) == truth.hidden[position], f"hidden states of row {row}"
    found = output.logits or {}
    assert set(found) == logits_for
    for row, logits in found.items():
        assert logits.tobytes() == truth.logits[positions[row]], f"logits of row {row}"


def run_chain(engine: NativeEngine, truth: Truth, start: int, num: int) -> PassOutput:
    """One pass over `num` rows of the truth that begin at `start`, all but the first of them guesses."""
    sequence = engine.new_sequence()
    if start:
        engine.forward([Rows(sequence, np.array(truth.tokens[:start], np.int32))])
    tokens = np.array(truth.tokens[start : start + num], np.int32)
    layers = tuple(range(engine.info.num_layers))
    choice = greedy(truth.tokens[: start + 1])
    [output] = engine.forward([Rows(sequence, tokens, None, choice, 0, "path", layers)])
    return output


def check_chains(engine: NativeEngine, truth: Truth, sizes: list[int], starts: list[int]) -> None:
    for start in starts:
        for num in sizes:
            output = run_chain(engine, truth, start, num)
            own = max(len(PROMPT) - 1 - start, 0)  # guesses inside the prompt are not the model's choice
            chosen = set(range(num)) if own == 0 else {0}
            check_rows(truth, list(range(start, start + num)), output, chosen)


def test_any_number_of_rows(engine: NativeEngine, truth: Truth) -> None:
    check_chains(engine, truth, list(range(1, 65)), [20])
    check_chains(engine, truth, [1, 2, 5, 16, 64], [0, 8, 62, 64, 75])


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings", [{"threads": 1}, {"threads": 3}, *({"isa": isa} for isa in _native.isas())], ids=str
)
def test_any_thread_count_and_instruction_set(
    model: TinyModel, truth: Truth, settings: dict[str, Any]
) -> None:
    other = load(model, **{"threads": 2, "cache": CACHES[model.path]} | settings)
    check_chains(other, truth, [1, 3, 4, 7, 33], [20, 60])
    again = one_by_one(other, PROMPT, 70)
    assert again.hidden == truth.hidden[: len(again.hidden)]
    assert again.logits == truth.logits[: len(again.logits)]


@pytest.mark.slow
def test_beyond_a_segment(model: TinyModel, engine: NativeEngine) -> None:
    """Attention is cut into segments of 256 positions, which workers share: same bits, too."""
    long = one_by_one(load(model, threads=1, cache=CACHES[model.path]), PROMPT, 530)
    check_chains(engine, long, [1, 5, 64], [250, 256, 470])
    alone = load(model, threads=3, isa="scalar", cache=CACHES[model.path])
    check_chains(alone, long, [1, 9], [254])


@pytest.mark.parametrize("chunk", [1, 7, 64, 0])
def test_a_prompt_in_chunks_gives_the_same_cache(
    model: TinyModel, engine: NativeEngine, truth: Truth, chunk: int
) -> None:
    sequence = engine.new_sequence()
    tokens = np.array(truth.tokens, np.int32)
    for start in range(0, len(tokens), chunk or len(tokens)):
        engine.forward([Rows(sequence, tokens[start : start + (chunk or len(tokens))])])
    assert sequence.length == len(tokens)
    assert cache_of(engine, sequence) == cache_of(engine, truth.sequence)


def random_tree(truth: Truth, start: int, num: int, seed: int) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Rows behind `start`: the true continuation as one path among wrong branches.

    Returns tokens, parents and, per row, the position in the truth (-1 for wrong ones).
    """
    rng = np.random.default_rng(seed)
    tokens, parents, places = [truth.tokens[start]], [-1], [start]
    children: dict[int, set[int]] = {}
    for row in range(1, num):
        tip = max(range(row), key=lambda i: places[i])
        if rng.random() < 0.5:
            parent, token, place = tip, truth.tokens[places[tip] + 1], places[tip] + 1
        else:
            parent, token, place = int(rng.integers(row)), int(rng.integers(300)), -1
            wanted = truth.tokens[places[parent] + 1] if places[parent] >= 0 else -1
            while token in children.get(parent, set()) or token == wanted:
                token = int(rng.integers(300))
        children.setdefault(parent, set()).add(token)
        tokens.append(token)
        parents.append(parent)
        places.append(place)
    return np.array(tokens, np.int32), np.array(parents, np.int32), places


@pytest.mark.parametrize("start", [20, 61, 120])
def test_trees(model: TinyModel, engine: NativeEngine, truth: Truth, start: int) -> None:
    """The true path has the truth's bits, each wrong branch those of its own chain; kept paths, too."""
    layers = tuple(range(engine.info.num_layers))
    for num, seed in [(2, 0), (5, 1), (9, 2), (20, 3), (20, 4)]:
        tokens, parents, places = random_tree(truth, start, num, seed)
        sequence = engine.new_sequence()
        engine.forward([Rows(sequence, np.array(truth.tokens[:start], np.int32))])
        choice = greedy(truth.tokens[: start + 1])
        [output] = engine.forward([Rows(sequence, tokens, parents, choice, 0, "path", layers)])
        assert output.hidden is not None
        path = [row for row in range(num) if places[row] >= 0]
        assert set(output.logits or {}) == set(path)
        for row in range(num):
            if places[row] >= 0:
                assert hidden_of(output.hidden, row) == truth.hidden[places[row]]
                continue
            line = [row]
            while parents[line[0]] >= 0:
                line.insert(0, int(parents[line[0]]))
            alone = engine.new_sequence()
            engine.forward([Rows(alone, np.array(truth.tokens[:start], np.int32))])
            [chain] = engine.forward([Rows(alone, tokens[line], want_hidden=layers)])
            assert chain.hidden is not None
            assert hidden_of(output.hidden, row) == hidden_of(chain.hidden, len(line) - 1)
        sequence.keep(np.array(path[1:], np.int32))
        kept = cache_of(engine, sequence)
        truth_end = start + len(path)
        again = engine.new_sequence()
        engine.forward([Rows(again, np.array(truth.tokens[:truth_end], np.int32))])
        assert kept == cache_of(engine, again)


def test_a_kept_wrong_branch_is_a_sequence_like_any_other(model: TinyModel, engine: NativeEngine) -> None:
    """Keep the branch that lies in scratch, go on from it, and compare with a fresh sequence."""
    sequence = engine.new_sequence()
    engine.forward([Rows(sequence, np.arange(1, 64, dtype=np.int32))])
    tokens = np.array([70, 1, 2, 3, 4, 5], np.int32)  # row 0 committed; chains 1-2 and 3-4-5 below it
    parents = np.array([-1, 0, 1, 0, 3, 4], np.int32)
    engine.forward([Rows(sequence, tokens, parents, greedy([70]), 0)])
    sequence.keep(np.array([3, 4, 5], np.int32))
    fresh = engine.new_sequence()
    engine.forward([Rows(fresh, np.array([*range(1, 64), 70, 3, 4, 5], np.int32))])
    assert sequence.length == fresh.length == 67
    assert cache_of(engine, sequence) == cache_of(engine, fresh)


def test_a_long_prompt_with_guesses_behind_it(engine: NativeEngine, truth: Truth) -> None:
    """The call takes several passes; `keep` counts rows as the caller does."""
    sequence = engine.new_sequence()
    tokens = np.array(truth.tokens[:104], np.int32)
    [output] = engine.forward([Rows(sequence, tokens, None, greedy(truth.tokens[:100]), 99)])
    assert output.num_passes > 1
    assert output.chosen[99:].tolist() == truth.tokens[100:105]
    sequence.keep(np.arange(100, 103, dtype=np.int32))
    fresh = engine.new_sequence()
    engine.forward([Rows(fresh, np.array(truth.tokens[:103], np.int32))])
    assert cache_of(engine, sequence) == cache_of(engine, fresh)


def test_several_sequences_in_one_pass(engine: NativeEngine, truth: Truth) -> None:
    """Chains and trees of five sequences at different places, together."""
    layers = tuple(range(engine.info.num_layers))
    requests, expected = [], []
    for start, num, seed in [(20, 5, 0), (63, 1, 1), (64, 9, 2), (100, 12, 3), (9, 20, 4)]:
        sequence = engine.new_sequence()
        engine.forward([Rows(sequence, np.array(truth.tokens[:start], np.int32))])
        tokens, parents, places = random_tree(truth, start, num, seed)
        choice = greedy(truth.tokens[: start + 1])
        requests.append(Rows(sequence, tokens, parents, choice, 0, "path", layers))
        expected.append(places)
    for output, places in zip(engine.forward(requests), expected, strict=True):
        assert output.hidden is not None
        for row, place in enumerate(places):
            if place >= 0:
                assert hidden_of(output.hidden, row) == truth.hidden[place]
                assert output.logits is not None
                assert output.logits[row].tobytes() == truth.logits[place]


def test_rollback_and_fork(model: TinyModel, engine: NativeEngine, truth: Truth) -> None:
    """What a rolled-back or forked sequence computes next is the truth's; neither disturbs the other."""
    layers = tuple(range(engine.info.num_layers))
    sequence = engine.new_sequence()
    engine.forward([Rows(sequence, np.array([*truth.tokens[:70], 1, 2, 3], np.int32))])
    twin = sequence.fork()
    sequence.rollback(66)
    engine.forward([Rows(twin, np.array([8, 8, 8], np.int32))])
    [output] = engine.forward([Rows(sequence, np.array(truth.tokens[66:72], np.int32), want_hidden=layers)])
    check_rows(truth, list(range(66, 72)), output, set())
    before = cache_of(engine, twin)
    fresh = engine.new_sequence()
    engine.forward([Rows(fresh, np.array([*truth.tokens[:70], 1, 2, 3, 8, 8, 8], np.int32))])
    assert before == cache_of(engine, fresh)


class _Faulty(NativeEngine):
    """Plants one fault: `damage` changes the rows before they run, or what comes out."""

    damage: Callable[[list[Rows]], list[Rows]]
    last_bit: bool

    @classmethod
    def around(cls, engine: NativeEngine, damage: Any = None, *, last_bit: bool = False) -> _Faulty:
        faulty = cls(engine._plan, engine.info, engine.head_host)
        faulty.damage = damage or (lambda requests: requests)
        faulty.last_bit = last_bit
        return faulty

    def forward(self, requests: list[Rows]) -> list[PassOutput]:
        outputs = super().forward(self.damage(requests))
        for output in outputs:
            if self.last_bit and len(output.chosen) > 4 and output.hidden:
                values = output.hidden[0].view(np.int32)
                values[3, 0] ^= 1
        return outputs


def _without_tree(requests: list[Rows]) -> list[Rows]:
    return [
        Rows(r.sequence, r.token_ids, None, r.context, r.choose_from, r.want_logits, r.want_hidden)
        for r in requests
    ]


def test_planted_faults_are_caught(model: TinyModel, engine: NativeEngine, truth: Truth) -> None:
    """One wrong bit in one row of passes of more than 4 rows; a tree that is run as a chain."""
    check_chains(_Faulty.around(engine), truth, [5], [20])
    with pytest.raises(AssertionError, match="row 3"):
        check_chains(_Faulty.around(engine, last_bit=True), truth, [5], [20])
    with pytest.raises(AssertionError):
        test_trees(model, _Faulty.around(engine, _without_tree), truth, 20)

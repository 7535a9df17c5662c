"""The native chooser gives the token of its plain twin, for every row and every combination of parameters."""

from dataclasses import replace

import numpy as np
import pytest

from guessahead._native import Chooser, gumbel_noise, isas, nucleus, softmax_weights
from guessahead.core import sampling
from guessahead.core.sampling import choose
from guessahead.engines.native.choosing import chooser_arguments
from guessahead.errors import StateError
from guessahead.types import NOT_FINITE, ChoiceContext, SamplingParams

NAN, INF = float("nan"), float("inf")
SIZES = (1, 2, 3, 15, 16, 17, 127, 128, 129, 255, 257, 400, 1000, 3000)


def random_params(rng):
    def maybe(default, *values):
        return values[rng.integers(len(values))] if rng.random() < 0.5 else default

    return SamplingParams(
        temperature=float(rng.choice([0.0, 1e-5, 1e-4, 1e-3, 0.3, 0.7, 1.0, 1.0, 1.7, 5.0, 100.0])),
        top_k=maybe(0, 1, 2, 5, 20, 100, 1000, 2**31 - 1),
        top_p=maybe(1.0, 1e-12, 0.1, 0.5, 0.9, 0.95, 0.999, 1.0 - 1e-12),
        min_p=maybe(0.0, 1e-30, 1e-6, 0.01, 0.1, 0.5, 1.0),
        repetition_penalty=maybe(1.0, 0.5, 1.1, 1.3, 100.0, 1e-310),
        frequency_penalty=maybe(0.0, -2.0, 0.1, 0.7),
        presence_penalty=maybe(0.0, -1.0, 0.3, 2.0),
        logit_bias={
            int(rng.integers(3500)): bias for bias in maybe((), (-INF, -100.0, 3.5, -99.0), (100.0,))
        },
        min_tokens=maybe(0, 1, 4, 1000),
        seed=int(rng.integers(2**64, dtype=np.uint64)),
    )


def random_row(rng, size):
    kind = rng.integers(7)
    row = rng.standard_normal(size) * rng.choice([0.01, 1.0, 3.0, 10.0])
    if kind == 1:
        row = np.round(row)  # ties everywhere, signed zeros among them
    elif kind == 2:
        row[:] = rng.integers(3)
    elif kind == 3:
        row[rng.integers(size)] = rng.choice([NAN, INF, -INF])
    elif kind == 4:
        row[rng.random(size) < 0.1] = 3.4028235e38
        row[rng.random(size) < 0.1] = -3.4028235e38
    elif kind == 5:
        row[:] = -3.4028235e38
        row[rng.random(size) < 0.02] = -3.4e38
    elif kind == 6:
        row[rng.random(size) < 0.05] += 30.0
    return row.astype(np.float32)


def random_choice(rng, size):
    length = int(rng.integers(1, 40))
    history = rng.integers(-1, size + 3, length).astype(np.int32)
    eos_ids = tuple(rng.integers(0, size + 2, rng.integers(3)).tolist())
    stream = int(rng.choice([0, 1, 2**32 - 1]))
    return ChoiceContext(random_params(rng), history, int(rng.integers(length + 1)), eos_ids, stream)


def made(choice):
    chooser = Chooser(**chooser_arguments(choice))
    chooser.sync(choice.history)
    return chooser


def native(row, choice, path=()):
    chooser = made(choice)
    for token in path:
        chooser.push(token)
    return chooser.choose(row)


@pytest.mark.parametrize("block", range(4))
def test_equals_the_twin_along_random_paths(block):
    rng = np.random.default_rng(block)
    for case in range(700):
        size = int(rng.choice(SIZES))
        choice = random_choice(rng, size)
        chooser = made(choice)
        path: list[int] = []
        for _ in range(3):
            row = random_row(rng, size)
            token = chooser.choose(row)
            assert token == choose(row, choice, path), (block, case, path, choice)
            for isa in isas():  # on every instruction set; choosing changes nothing
                assert token == chooser.choose(row, isa), (block, case, path, choice, isa)
            path.append(token if rng.random() < 0.7 else int(rng.integers(size)))
            chooser.push(path[-1])


@pytest.mark.parametrize("seed", range(60))
def test_a_chooser_that_follows_a_changing_history_equals_a_fresh_one(seed):
    """Tokens are committed, guessed and taken back in any order; penalties count what stands there."""
    rng = np.random.default_rng(seed)
    size = 40
    choice = random_choice(rng, size)
    kept = made(choice)
    for _ in range(60):
        history = choice.history[: rng.integers(1, len(choice.history) + 1)]
        history = np.append(history, rng.integers(-1, size, rng.integers(0, 5))).astype(np.int32)
        choice = replace(choice, history=history)
        kept.sync(history)
        row = random_row(rng, size)
        assert kept.choose(row) == native(row, choice) == choose(row, choice)
        for token in rng.integers(0, size, rng.integers(0, 4)).tolist():
            kept.push(token)


def test_sampling_without_a_resolved_seed_is_refused():
    with pytest.raises(StateError, match="seed"):
        chooser_arguments(ChoiceContext(SamplingParams(temperature=1.0), np.zeros(1, np.int32), 1))


def test_noise_and_weights_equal_the_twin_to_the_bit():
    rng = np.random.default_rng(3)
    ids = np.arange(50_000, dtype=np.int32)
    for seed, stream, position in [(0, 0, 0), (2**64 - 1, 2**32 - 1, 2**40), (17, 1, 5)]:
        ours = sampling.gumbel_noise(seed, stream, position, ids)
        assert gumbel_noise(seed, stream, position, ids) == ours.tolist()
    distance = np.concatenate(
        [-rng.random(50_000) * 30, -rng.exponential(size=50_000), [0.0, -0.0, -INF, -1e304]]
    )
    for isa in isas():
        assert softmax_weights(distance, isa) == sampling.softmax_weights(distance).tolist()
        assert softmax_weights(np.array([0.0, NAN]), isa) == [2**40, 0]


def last_of_nucleus(row, temperature, top_p):
    """By the definition: all weights in order, and where their sum reaches its share."""
    distance = (row.astype(np.float64) - np.float64(row.max())) * (1.0 / temperature)
    order = np.lexsort((np.arange(len(row)), -row.astype(np.float64)))
    sums = np.cumsum(sampling.softmax_weights(distance)[order])
    return int(order[np.flatnonzero(sums.astype(np.float64) >= top_p * np.float64(sums[-1]))[0]])


def nucleus_row(rng, size, kind):
    """As models write them (a few likely tokens before many unlikely ones), flat, with ties, far apart."""
    row = rng.standard_normal(size) * rng.choice([0.3, 1.0, 2.5])
    likely = rng.integers(size, size=max(1, size // 500))
    if kind == "likely":
        row[likely] += rng.exponential(6.0, len(likely)) + 4.0
    elif kind == "ties":
        row = np.round(row * 2.0) / 2.0
    elif kind == "far":
        row = row * 30.0
    return row.astype(np.float32)


@pytest.mark.parametrize("kind", ["likely", "flat", "ties", "far"])
def test_top_p_ends_where_the_exact_sums_end(kind):
    """The quick way is taken where it is certain, and then it is right."""
    rng = np.random.default_rng(len(kind))
    ways = []
    for _ in range(400):
        row = nucleus_row(rng, int(rng.choice([1, 100, 129, 3000, 20_000])), kind)
        temperature = float(rng.choice([0.3, 0.8, 1.0, 1.7, 30.0]))
        top_p = float(rng.choice([1e-12, 0.1, 0.5, 0.9, 0.95, 0.999, 1.0 - 1e-12]))
        last, certain = nucleus(row, temperature, top_p)
        assert last == last_of_nucleus(row, temperature, top_p), (len(row), temperature, top_p, certain)
        assert {nucleus(row, temperature, top_p, isa) for isa in isas()} == {(last, certain)}
        ways.append(certain)
    assert 0.1 < np.mean(ways) < 0.95, "both ways are tested"


def test_top_p_at_a_border_is_left_to_the_exact_sums():
    """Shares that fall on a border between two tokens to fifteen digits: a rough sum cannot tell."""
    rng = np.random.default_rng(4)
    for _ in range(200):
        row = nucleus_row(rng, 2000, "likely")
        weights = np.sort(sampling.softmax_weights((row - row.max()).astype(np.float64)))[::-1]
        share = float(np.cumsum(weights)[rng.integers(1, 30)] / weights.sum())
        for top_p in (share, np.nextafter(share, 0.0), np.nextafter(share, 1.0)):
            last, certain = nucleus(row, 1.0, top_p)
            assert last == last_of_nucleus(row, 1.0, top_p)
            assert not certain


FILTERS = [
    {},
    {"top_k": 40},
    {"top_k": 3000},
    {"top_p": 0.9},
    {"top_p": 0.999999},
    {"min_p": 0.02},
    {"top_k": 50, "top_p": 0.8, "min_p": 0.05, "repetition_penalty": 1.1},
]


@pytest.mark.parametrize("filters", FILTERS, ids=str)
@pytest.mark.parametrize("vocab_size", [151_936, 152_064])
def test_equals_the_twin_on_large_vocabularies(filters, vocab_size):
    rng = np.random.default_rng(vocab_size)
    history = rng.integers(0, vocab_size, 500).astype(np.int32)
    for seed, (scale, temperature) in enumerate([(0.0, 1.0), (1.0, 1.0), (3.0, 0.7), (2.0, 1.5)]):
        row = np.round(rng.standard_normal(vocab_size) * scale, seed).astype(np.float32)
        choice = ChoiceContext(SamplingParams(temperature, seed=seed, **filters), history, 100)
        assert native(row, choice) == choose(row, choice)


def test_skipping_finds_winners_far_behind():
    """At a high temperature the winner is seldom near the top; skipping must not lose one."""
    rng = np.random.default_rng(0)
    row = (-rng.exponential(3.0, 20_000)).astype(np.float32)
    drawn = []
    for seed in range(400):
        choice = ChoiceContext(SamplingParams(2.0, seed=seed), np.zeros(1, np.int32), 1)
        drawn.append(native(row, choice))
        assert drawn[-1] == choose(row, choice)
    assert np.mean(row[drawn] < -1.5) > 0.2
    assert len(set(drawn)) > 350


def test_a_swapped_pair_of_ids_would_be_noticed():
    """The comparison has teeth: exchanging the logits of two ids changes what is chosen."""
    rng = np.random.default_rng(1)
    differing = 0
    for seed in range(200):
        row = rng.standard_normal(50).astype(np.float32)
        swapped = row.copy()
        swapped[[3, 4]] = row[[4, 3]]
        choice = ChoiceContext(SamplingParams(1.0, seed=seed), np.zeros(1, np.int32), 1)
        differing += native(row, choice) != native(swapped, choice)
    assert differing > 3


@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("size", SIZES)
def test_one_logit_that_is_not_finite_is_found_wherever_it_stands(size, isa):
    row = np.random.default_rng(size).standard_normal(size).astype(np.float32)
    for params in (SamplingParams(), SamplingParams(1.0, seed=1), SamplingParams(logit_bias={0: 1.0})):
        chooser = made(ChoiceContext(params, np.zeros(2, np.int32), 1))
        for place in {*range(min(size, 20)), size // 2, size - 1}:
            for bad in (NAN, INF, -INF):
                broken = row.copy()
                broken[place] = bad
                assert chooser.choose(broken, isa) == NOT_FINITE
        assert chooser.choose(row, isa) >= 0


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_with_nothing_left_the_lowest_id_that_is_not_banned(temperature):
    row = np.arange(300, dtype=np.float32)
    history = np.zeros(2, np.int32)
    for num_banned, expected in ((299, 299), (300, 0)):
        banned = dict.fromkeys(range(num_banned), -100.0)
        params = SamplingParams(temperature, logit_bias=banned, min_tokens=3, seed=1)
        choice = ChoiceContext(params, history, 1, eos_ids=(2,))
        assert native(row, choice) == choose(row, choice) == expected
    with pytest.raises(ValueError, match="empty"):
        native(row[:0], choice)


def test_position_counts_history_and_path():
    row = np.zeros(1000, np.float32)
    params = SamplingParams(1.0, seed=9)
    history = np.arange(5, dtype=np.int32)
    split = [native(row, ChoiceContext(params, history[:n], 1), history[n:]) for n in range(1, 6)]
    assert len(set(split)) == 1
    assert split[0] == choose(row, ChoiceContext(params, history, 1))
    assert native(row, ChoiceContext(params, history[:4], 1)) != split[0]

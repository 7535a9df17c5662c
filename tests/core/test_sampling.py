"""The definition of `choose`, tested on its plain twin: ranges, rules, and the law of what it draws."""

import math
from dataclasses import replace

import numpy as np
import pytest

from guessahead.core import sampling
from guessahead.core.sampling import choose, gumbel_noise, is_greedy, validate
from guessahead.errors import ParameterError, StateError
from guessahead.types import NOT_FINITE, ChoiceContext, SamplingParams

NAN, INF = float("nan"), float("inf")
LOGITS = np.array([1.0, 2.5, -0.5, 2.0, 0.0, 1.5, -2.0, 2.25], np.float32)
SAMPLES = 20_000
# Chi-square of 7 degrees of freedom exceeds this once in 10,000.
CHI_SQUARE_BOUND = 29.9


def choice_of(history=(0,), prompt_length=1, eos_ids=(), stream=0, **params):
    return ChoiceContext(
        SamplingParams(**params), np.array(history, np.int32), prompt_length, eos_ids, stream
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("temperature", v) for v in (-0.1, NAN, INF, 101.0, "1", True)],
        *[("top_k", v) for v in (-1, 1.5, 2**31)],
        *[("top_p", v) for v in (0.0, 1.01, NAN, -1.0)],
        *[("min_p", v) for v in (-0.01, 1.01, NAN)],
        *[("repetition_penalty", v) for v in (0.0, -1.0, NAN, INF)],
        *[("frequency_penalty", v) for v in (-2.1, 2.1, NAN)],
        *[("presence_penalty", v) for v in (-2.1, 2.1, NAN)],
        *[("min_tokens", v) for v in (-1, 0.5)],
        *[("seed", v) for v in (-1, 2**64, 0.5)],
        *[("logit_bias", v) for v in ({10: 1.0}, {-1: 1.0}, {1: NAN}, {1: INF}, {"1": 1.0})],
    ],
)
def test_values_out_of_range_are_refused_in_one_line(name, value):
    with pytest.raises(ParameterError, match=name) as error:
        validate(SamplingParams(**{name: value}), vocab_size=10)
    shown = next(iter(value.items())) if isinstance(value, dict) else (value,)
    assert any(repr(part) in str(error.value) for part in shown)
    assert "must be" in str(error.value)
    assert "\n" not in str(error.value)


def test_values_in_range_are_accepted():
    validate(SamplingParams(), 10)
    validate(
        SamplingParams(2.0, 10, 1e-9, 1.0, 0.5, -2.0, 2.0, {0: -INF, 9: 100.0, 3: -100}, 5, 2**64 - 1),
        10,
    )


@pytest.mark.parametrize("params", [{"temperature": t} for t in (0, 1e-6, 1e-5)] + [{"top_k": 1}])
def test_tiny_temperatures_and_top_k_of_one_are_greedy(params):
    params = {"temperature": 1.0, **params}
    assert is_greedy(SamplingParams(**params))
    for seed in range(20):
        assert choose(LOGITS, choice_of(seed=seed, **params)) == 1
    assert not is_greedy(SamplingParams(temperature=1e-4))


def test_a_tie_goes_to_the_lowest_id():
    row = np.array([0.0, 3.0, 3.0, -0.0, 3.0], np.float32)
    assert choose(row, choice_of()) == 1
    assert choose(row, choice_of(logit_bias={1: -1.0})) == 2
    # top_k = 2 keeps ids 1 and 2 of the three equal ones
    drawn = {choose(row, choice_of(temperature=1.0, top_k=2, seed=seed)) for seed in range(50)}
    assert drawn == {1, 2}
    assert choose(np.array([-0.0, 0.0], np.float32), choice_of()) == 0


@pytest.mark.parametrize("bad", [NAN, INF, -INF])
@pytest.mark.parametrize(
    "params", [{}, {"temperature": 1.0}, {"logit_bias": {3: 5.0}}, {"min_tokens": 9}], ids=str
)
def test_a_logit_that_is_not_finite_leaves_no_choice(bad, params):
    choice = choice_of(eos_ids=(2,), seed=0, **params)
    for place in range(4):
        row = np.array([0.0, 1.0, 2.0, 3.0], np.float32)
        assert choose(row, choice) >= 0
        row[place] = bad
        assert choose(row, choice) == NOT_FINITE == -2


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_with_nothing_left_the_lowest_id_that_is_not_banned(temperature):
    row = np.zeros(4, np.float32)
    params = {"temperature": temperature, "seed": 1}
    assert choose(LOGITS[:2], choice_of(logit_bias={0: -INF, 1: -101.0}, **params)) == 0
    choice = choice_of(eos_ids=(1,), min_tokens=3, logit_bias={0: -100.0}, **params)
    assert choose(LOGITS[:2], choice) == 0
    missing = np.array([-INF, -INF, -INF, -INF], np.float32)  # none of them is in a head's vocabulary
    assert sampling.probabilities(missing, choice).tolist() == [0, 0, 1, 0]
    with pytest.raises(ParameterError, match="empty"):
        choose(row[:0], choice_of(**params))


def test_sampling_without_a_resolved_seed_is_refused():
    with pytest.raises(StateError, match="seed"):
        choose(LOGITS, choice_of(temperature=1.0))
    assert choose(LOGITS, choice_of()) == 1


def test_repetition_penalty_counts_the_prompt_the_output_and_the_path():
    row = np.array([-1.0, 4.0, 3.0, 2.5], np.float32)
    choice = choice_of((1, 0), 1, repetition_penalty=2.0)
    assert choose(row, choice) == 2
    assert choose(row, choice, (2,)) == 3
    # a negative logit is multiplied: id 0 falls behind id 1
    assert choose(np.array([-1.0, -1.5], np.float32), choice_of((0, 77, -1), 1, repetition_penalty=2.0)) == 1


def test_frequency_and_presence_count_only_the_output():
    row = np.array([2.0, 3.0, 2.5], np.float32)
    assert choose(row, choice_of((1, 1, 1), 3, frequency_penalty=2.0, presence_penalty=2.0)) == 1
    assert choose(row, choice_of((0, 1), 1, presence_penalty=0.75)) == 2
    frequency = choice_of((0, 1), 1, frequency_penalty=0.4)
    assert choose(row, frequency) == 1
    assert choose(row, frequency, (1,)) == 2
    presence = choice_of((0, 1), 1, presence_penalty=0.4)
    assert choose(row, presence, (1, 1, 1)) == 1


def test_min_tokens_bans_eos_for_exactly_the_first_rows_of_a_path():
    row = np.array([0.0, 9.0, 8.0, 1.0], np.float32)
    choice = choice_of((0, 3), 1, eos_ids=(1, 2, 99), min_tokens=3)  # one output token so far
    assert [choose(row, choice, (3,) * n) for n in range(4)] == [3, 3, 1, 1]


def test_bias_is_added_after_the_penalties_and_bans_at_minus_100():
    row = np.array([1.0, 2.0, 200.0], np.float32)
    assert choose(row, choice_of(logit_bias={2: -100.0})) == 1
    assert choose(row, choice_of(logit_bias={2: -99.0})) == 2
    assert choose(row[:2], choice_of((0,), 1, repetition_penalty=2.0, logit_bias={0: 1.6})) == 0
    assert choose(row[:2], choice_of(logit_bias={7: 50.0})) == 1


def probabilities(logits, temperature=1.0):
    weights = np.exp((logits.astype(np.float64) - logits.max()) / temperature)
    return weights / weights.sum()


def chi_square(params, expected, samples=SAMPLES):
    choice = choice_of(**params)
    drawn = [choose(LOGITS, replace(choice, params=replace(choice.params, seed=s))) for s in range(samples)]
    counts = np.bincount(drawn, minlength=len(LOGITS))
    assert counts[expected == 0].sum() == 0
    live = expected > 0
    return (((counts - samples * expected) ** 2)[live] / (samples * expected[live])).sum()


def test_draws_follow_the_softmax_and_a_noise_that_ignores_the_token_does_not(monkeypatch):
    assert chi_square({"temperature": 0.8}, probabilities(LOGITS, 0.8)) < CHI_SQUARE_BOUND

    def same_for_all(seed, stream, position, token_ids):
        return gumbel_noise(seed, stream, position, np.zeros_like(token_ids))

    monkeypatch.setattr(sampling, "gumbel_noise", same_for_all)
    assert chi_square({"temperature": 0.8}, probabilities(LOGITS, 0.8)) > 100 * CHI_SQUARE_BOUND


@pytest.mark.parametrize(
    ("params", "kept"),
    [
        ({"top_k": 3}, [1, 7, 3]),
        ({"top_p": 0.7}, [1, 7, 3]),  # probabilities 0.33, 0.26, 0.20, 0.12, ...
        ({"top_p": 0.32}, [1]),
        ({"top_p": 1e-9}, [1]),
        ({"min_p": 0.3}, [1, 7, 3, 5]),
        # top_p counts the mass that top_k leaves: 0.56 of the first two's 1.0
        ({"top_k": 2, "top_p": 0.55}, [1]),
        ({"top_p": 0.9, "min_p": 0.7}, [1, 7]),
    ],
)
def test_filters_keep_the_stated_tokens_and_renormalise(params, kept):
    expected = np.zeros(len(LOGITS))
    expected[kept] = probabilities(LOGITS)[kept]
    assert chi_square({"temperature": 1.0, **params}, expected / expected.sum(), 5_000) < CHI_SQUARE_BOUND


def test_noise_is_standard_gumbel():
    noise = gumbel_noise(5, 0, 0, np.arange(200_000))
    uniform = np.sort(np.exp(-np.exp(-noise)))
    distance = np.abs(uniform - (np.arange(len(uniform)) + 0.5) / len(uniform)).max()
    assert distance < 1.95 / math.sqrt(len(uniform))  # Kolmogorov-Smirnov, once in 1,000
    assert np.isfinite(noise).all()
    assert noise.mean() == pytest.approx(0.5772, abs=0.02)


KEYS = [(3, 0, 7)]
KEYS += [(3 ^ (1 << bit), 0, 7) for bit in range(64)]
KEYS += [(3, 1 << bit, 7) for bit in range(32)]
KEYS += [(3, 0, 7 ^ (1 << bit)) for bit in range(32)]
KEYS += [(7, 0, 3), (0, 3, 7), (7, 3, 0), (0, 7, 3), (3, 7, 0), (3, 8, 0), (3, 0, 8), (4, 0, 6)]


def test_seed_stream_position_and_token_all_make_unrelated_noise():
    uniform = np.array([np.exp(-np.exp(-gumbel_noise(*key, np.arange(4096)))) for key in KEYS])
    bound = 5.5 / math.sqrt(4096)
    for matrix in (uniform, np.floor(uniform * 256) % 2):  # as numbers, and one of the bits below the first
        correlation = np.corrcoef(matrix)
        np.fill_diagonal(correlation, 0.0)
        assert np.abs(correlation).max() < bound
    for bit in range(12):  # tokens that differ in one bit
        partner = uniform[:, np.arange(4096) ^ (1 << bit)]
        for row, other in zip(uniform, partner, strict=True):
            assert abs(np.corrcoef(row, other)[0, 1]) < math.sqrt(2) * bound
    # one token over many positions, and over many seeds
    for keys in ([(1, 0, p) for p in range(4096)], [(s, 0, 1) for s in range(4096)]):
        series = np.array([gumbel_noise(*key, 11)[0] for key in keys])
        assert abs(np.corrcoef(series[1:], series[:-1])[0, 1]) < bound


def test_noise_of_the_written_definition():
    """The docstring's recipe in plain integers, as a third party would write it."""
    mask, golden = 2**64 - 1, 0x9E3779B97F4A7C15

    def mix(x, key=0):
        x &= mask
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & mask) ^ key
        x = (x ^ (x >> 27)) * 0x94D049BB133111EB & mask
        return x ^ (x >> 31)

    for seed, stream, position, token in [
        (0, 0, 0, 0),
        (2**64 - 1, 2**32 - 1, 10**6, 151_935),
        (42, 1, 9, 5),
    ]:
        a = mix(mix(mix(seed + golden) + (stream + 1) * golden) + (position + 1) * golden)
        h = mix(mix(a + golden) + (token + 1) * golden, mix(a + 2 * golden))
        expected = -math.log(-math.log((2 * (h >> 12) + 1) * 2.0**-53))
        assert gumbel_noise(seed, stream, position, token)[0] == pytest.approx(expected, rel=1e-13, abs=1e-15)


def test_exp_and_log_against_the_system_library():
    x = -np.geomspace(1e-12, 700.0, 20_001)
    assert np.abs(sampling.exp(x) / np.exp(x) - 1.0).max() < 1.1e-14
    assert sampling.exp(np.array([0.0, -701.0, -INF])).tolist() == [1.0, 0.0, 0.0]
    y = np.concatenate([np.geomspace(2.0**-53, 40.0, 20_001), 1.0 - np.geomspace(2.0**-53, 0.3, 1_001)])
    np.testing.assert_allclose(sampling.log(y), np.log(y), rtol=1e-15)


@pytest.mark.parametrize("hash_value", [0, 2**64 - 1])
def test_the_extreme_hashes_give_finite_noise(hash_value):
    uniform = (2 * (hash_value >> 12) + 1) * 2.0**-53
    assert 0.0 < uniform < 1.0
    noise = -sampling.log(-sampling.log(np.array([uniform])))
    assert -3.61 < noise[0] < 36.74


@pytest.mark.parametrize(
    "filters",
    [
        {},
        {"top_k": 5},
        {"top_k": 100},
        {"top_p": 0.6},
        {"top_p": 1e-9},
        {"top_p": 0.9999999999},
        {"min_p": 0.1},
        {"top_k": 7, "top_p": 0.9, "min_p": 0.05},
    ],
)
@pytest.mark.parametrize("temperature", [0.3, 1.0, 40.0])
def test_probabilities_need_no_full_order(filters, temperature):
    rng = np.random.default_rng(1)
    for scale in (0.01, 1.0, 30.0):
        row = (rng.integers(-6, 7, 60) * scale).astype(np.float32)  # many ties
        row[rng.random(60) < 0.1] = -INF
        choice = choice_of(temperature=temperature, seed=0, **filters)
        logits = row.astype(np.float64)
        order = np.argsort(-logits, kind="stable")
        kept, distance = sampling._filtered(logits, order[logits[order] > -INF], choice.params)
        expected = np.zeros(60)
        expected[kept] = np.exp(distance) / np.exp(distance).sum()
        assert sampling.probabilities(row, choice) == pytest.approx(expected, rel=1e-13, abs=0)

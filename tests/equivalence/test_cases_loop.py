"""Cases from public bug reports of this field: the loop, what it commits, and where it stops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from guessahead.core.sampling import token_logprob
from guessahead.drafters import registry
from guessahead.drafters.base import DrafterResources
from guessahead.runners.solo import SpeculativeDecoder
from guessahead.types import Ask, Draft
from tests.support.fake_drafters import ConstantDrafter, HostileDrafter, OracleDrafter, TreeOracleDrafter
from tests.support.fake_text import letters
from tests.support.fakes import ScriptEngine, TinyEngine, decode, decode_stream, plain, request

VOCAB = 24
LETTERS = letters(VOCAB)
PROMPT = [5, 6, 7, 5, 6]
SAMPLED = {"temperature": 1.0, "top_p": 0.95}


def oracle(base: Any, prompt: list[int], num_right: list[int], kind: Any = OracleDrafter) -> Any:
    return kind([*prompt, *base.token_ids], num_right, VOCAB)


@pytest.mark.parametrize("kind", [OracleDrafter, TreeOracleDrafter])
@pytest.mark.parametrize("gamma", [1, 2, 4, 8])
def test_case_01_positions_advance_by_the_tokens_committed(gamma: int, kind: Any) -> None:
    engine = TinyEngine()
    asked = request(PROMPT, 40, gamma, logprobs=VOCAB)
    base = plain(engine, LETTERS, asked)
    generation = decode(engine, oracle(base, PROMPT, list(range(gamma + 1)), kind), LETTERS, asked)
    assert generation.token_ids == base.token_ids
    assert generation.logprobs is not None
    for i, found in enumerate(generation.logprobs):  # a fresh pass, without any cache
        before = (*PROMPT, *base.token_ids[:i])
        assert found == token_logprob(engine.logits_after(before), base.token_ids[i], VOCAB)


def test_case_02_the_first_guess_is_checked() -> None:
    prompt = [1, 1, 1]
    script = [0, 0, 0, 1, 2, 1, 2, 3]
    engine = ScriptEngine(script, VOCAB)
    drafter = registry.make("prompt-lookup", {"min_ngram": 1}, DrafterResources(engine))
    generation = decode(engine, drafter, LETTERS, request(prompt, 5))
    assert generation.token_ids == (1, 2, 1, 2, 3)
    assert generation.stats.num_tested > generation.stats.num_accepted


def test_case_03_rejected_guesses_leave_no_trace() -> None:
    engine = TinyEngine()
    asked = request(PROMPT, 20, gamma=5)
    base = plain(engine, LETTERS, asked)
    engine.calls.clear()
    drafter = HostileDrafter([*PROMPT, *base.token_ids], VOCAB)
    chunks, _ = decode_stream(engine, drafter, LETTERS, asked)
    assert [len(chunk.token_ids) for chunk in chunks] == [1] * 20
    assert [rows.choose_from for rows in engine.calls] == [len(PROMPT) - 1] + [0] * 19
    assert [len(rows.token_ids) for rows in engine.calls[1:15]] == [6] * 14
    assert tuple(chunk.token_ids[0] for chunk in chunks) == base.token_ids


@pytest.mark.parametrize("eos", [(9,), (9, 10)])
@pytest.mark.parametrize("at", range(8))
def test_case_05_eos_inside_block(at: int, eos: tuple[int, ...]) -> None:
    tokens = [1, 2, 3, 4, 5, 6, 7, 8, 11, 12]
    tokens[at] = eos[at % len(eos)]
    engine = ScriptEngine([0, *tokens, *tokens], VOCAB)
    drafter = OracleDrafter([0, *tokens, *tokens], [9], VOCAB)
    asked = request([0], 20, gamma=5, logprobs=0)
    chunks, generation = decode_stream(engine, drafter, letters(VOCAB, eos), asked)
    wanted = tuple(tokens[: at + 1])
    text = "".join(chr(65 + token) for token in wanted[:-1])
    assert (generation.token_ids, generation.text, generation.finish_reason) == (wanted, text, "eos")
    assert [lp.token_id for lp in generation.logprobs] == list(wanted)
    assert generation.stats.num_tokens == at + 1
    assert sum((chunk.token_ids for chunk in chunks), ()) == wanted
    assert "".join(chunk.text for chunk in chunks) == text
    assert sum(v.token_ids.size for v in drafter.verdicts) == at + 1
    assert all(len(v.token_ids) == len(v.path) + 1 for v in drafter.verdicts)


@pytest.mark.parametrize("gamma", [1, 4, 16])
@pytest.mark.parametrize("limit", range(1, 13))
def test_case_06_limit_inside_block(limit: int, gamma: int) -> None:
    script = [0, *range(1, 16)]
    engine, drafter = ScriptEngine(script, VOCAB), OracleDrafter(script, [20], VOCAB)
    generation = decode(engine, drafter, LETTERS, request([0], limit, gamma))
    assert generation.token_ids == tuple(range(1, limit + 1))
    assert generation.finish_reason == "length"
    assert generation.stats.num_tokens == limit
    assert (len(drafter.budgets) == 0) == (limit <= 2)  # with one token left there is nothing to gain
    left = 1
    for budget, verdict in zip(drafter.budgets, drafter.verdicts[1:], strict=False):
        assert budget <= min(gamma, limit - left - 1)
        left += len(verdict.token_ids)


@pytest.mark.parametrize(
    ("eos_at", "stop_at", "limit", "reason"),
    [(4, 3, 6, "stop"), (3, 4, 6, "eos"), (5, 6, 4, "length"), (3, 9, 4, "eos"), (9, 3, 4, "stop")],
)
def test_case_06_the_earliest_event_decides(eos_at: int, stop_at: int, limit: int, reason: str) -> None:
    """All of them are in the block of the second step; indices count output tokens from 0."""
    tokens = list(range(1, 16))
    tokens[eos_at], tokens[stop_at] = 20, 19
    script = [0, *tokens]
    engine, drafter = ScriptEngine(script, VOCAB), OracleDrafter(script, [20], VOCAB)
    asked = request([0], limit, gamma=12, stops=("T",))
    generation = decode(engine, drafter, letters(VOCAB, [20]), asked)
    assert generation.finish_reason == reason
    assert len(generation.token_ids) == min(eos_at + 1, stop_at + 1, limit)


def test_case_08_a_wrongly_guessed_eos_ends_nothing() -> None:
    engine = TinyEngine(rare=(3,))
    tokenizer = letters(VOCAB, [3])
    asked = request(PROMPT, 20, gamma=3, logit_bias={3: -100.0})
    base = plain(engine, tokenizer, asked)
    generation = decode(engine, ConstantDrafter(3), tokenizer, asked)
    assert generation.stats.num_tested > 0
    assert (generation.token_ids, generation.finish_reason) == (base.token_ids, "length")


def test_case_12_min_tokens_masks_eos_in_exactly_the_first_rows() -> None:
    """A target that always wants EOS (3), else 4: EOS comes at the first place where it may."""

    class Impatient(TinyEngine):
        def logits_after(self, token_ids: tuple[int, ...]) -> Any:
            return np.eye(VOCAB, dtype=np.float32)[3] * 9 + np.eye(VOCAB, dtype=np.float32)[4] * 5

    tokenizer = letters(VOCAB, [3])
    for min_tokens in range(10):
        for gamma in range(7):
            asked = request(PROMPT, 16, gamma, min_tokens=min_tokens)
            generation = decode(Impatient(), ConstantDrafter(4), tokenizer, asked)
            assert generation.token_ids == (4,) * min_tokens + (3,)


def test_case_13_logprobs_of_accepted_tokens() -> None:
    engine = TinyEngine()
    asked = request(PROMPT, 24, gamma=5, logprobs=2, temperature=0.8)
    base = plain(engine, LETTERS, asked)
    for kind in (OracleDrafter, TreeOracleDrafter):
        generation = decode(engine, oracle(base, PROMPT, [5, 0, 3, 1], kind), LETTERS, asked)
        assert generation.logprobs == base.logprobs
        assert generation.logprobs is not None
        for i, found in enumerate(generation.logprobs):
            logits = engine.logits_after((*PROMPT, *base.token_ids[:i])).astype(float)
            expected = logits - np.log(np.exp(logits).sum())
            assert found.logprob == pytest.approx(expected[found.token_id], abs=1e-12)
            assert [token for token, _ in found.top] == np.argsort(-expected)[:2].tolist()


def test_case_19_the_reader_goes_away_at_any_chunk() -> None:
    engine = TinyEngine()
    draft_engine = TinyEngine(seed=1, like=engine)
    asked = request(PROMPT, 24, **SAMPLED)
    base = plain(engine, LETTERS, asked)
    for leave_after in range(200):
        name = ("draft-model", "prompt-lookup")[leave_after % 2]
        second = draft_engine if name == "draft-model" else None
        drafter = registry.make(name, {}, DrafterResources(engine, second))
        steps = SpeculativeDecoder(engine, drafter, LETTERS).stream(asked)
        for _ in range(leave_after % 12):
            next(steps, None)
        steps.close()
        assert engine.num_open == draft_engine.num_open == 0
    drafter = registry.make("draft-model", {}, DrafterResources(engine, draft_engine))
    assert decode(engine, drafter, LETTERS, asked).token_ids == base.token_ids


def test_case_19_an_error_in_a_drafter_frees_everything() -> None:
    class Broken(ConstantDrafter):
        num_ended = 0

        def propose(self, ask: Ask) -> Draft:
            raise RuntimeError("broken")

        def end(self) -> None:
            self.num_ended += 1

    engine, drafter = TinyEngine(), Broken(1)
    with pytest.raises(RuntimeError, match="broken"):
        decode(engine, drafter, LETTERS, request(PROMPT))
    assert (engine.num_open, drafter.num_ended) == (0, 1)


def test_case_20_a_useless_drafter_costs_no_pass() -> None:
    engine = TinyEngine()
    asked = request(PROMPT, 24, gamma=5)
    base = plain(engine, LETTERS, asked)
    generation = decode(engine, HostileDrafter([*PROMPT, *base.token_ids], VOCAB), LETTERS, asked)
    assert generation.stats.num_passes == base.stats.num_passes == 23
    assert generation.stats.num_sweeps_saved == 0
    assert generation.stats.num_prompt_passes == base.stats.num_prompt_passes == 1


def test_case_20_a_second_request_inherits_nothing() -> None:
    engine = TinyEngine()
    drafter = registry.make("prompt-lookup", {"min_ngram": 1}, DrafterResources(engine))
    asked = request(PROMPT, 24)
    first = decode(engine, drafter, LETTERS, asked)
    decode(engine, drafter, LETTERS, request([1, 2, 3], 24))
    again = decode(engine, drafter, LETTERS, asked)
    assert first.token_ids == again.token_ids
    assert first.stats.accepted_lengths == again.stats.accepted_lengths
    assert first.stats.num_drafted == again.stats.num_drafted


def test_case_21_ties_go_to_the_lowest_id() -> None:
    class Flat(TinyEngine):
        def logits_after(self, token_ids: tuple[int, ...]) -> Any:
            logits = np.zeros(VOCAB, np.float32)
            logits[[7, 5 + len(token_ids) % 2, 20]] = 4.0
            return logits

    engine = Flat()
    expected = tuple(5 + (len(PROMPT) + i) % 2 for i in range(12))
    for settings in ({}, {"top_k": 1, "temperature": 2.0}, {"temperature": 1e-6}):
        asked = request(PROMPT, 12, gamma=4, logprobs=2, **settings)
        assert plain(engine, LETTERS, asked).token_ids == expected
        drafter = TreeOracleDrafter([*PROMPT, *expected], [2, 0, 1], VOCAB)
        generation = decode(engine, drafter, LETTERS, asked)
        assert generation.token_ids == expected
        assert generation.logprobs is not None
        assert [lp.top[0][0] for lp in generation.logprobs] == list(expected)

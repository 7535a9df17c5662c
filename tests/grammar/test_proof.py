"""Schemas by the hundred: every answer fits its schema or was cut by the limit, and is plain decoding's.

`make test` takes some random schemas, `make proof` 500: those of the public test suite that llguidance
supports, and random ones.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import jsonschema
import numpy as np
import pytest
import referencing

from guessahead.errors import GrammarError
from guessahead.grammar import constraint_for
from guessahead.types import Generation, Grammar, Request, SamplingParams
from tests.conftest import Compared, Report
from tests.equivalence.grid import make_drafter, run
from tests.equivalence.worlds import World, shared_world
from tests.grammar.random_schemas import random_schema
from tests.support.schema_suite import suite_schemas

NUM_SCHEMAS, PART = 500, 50
SAMPLE = 12
SEEDS = (0, 1, 2)
MAX_TOKENS = 120
DRAFTERS = ("grammar", "portfolio", "suffix", "tree-oracle", "draft-model", "head")


@pytest.fixture(scope="module")
def world() -> World:
    return shared_world("llama-Q4_K")


def is_supported(schema: dict[str, Any], world: World) -> bool:
    try:
        constraint_for(grammar_of(schema), world.tokenizer, world.vocab_size, 1)
    except GrammarError:
        return False
    return True


def grammar_of(schema: dict[str, Any]) -> Grammar:
    return Grammar("json_schema", json.dumps(schema))


def request_for(schema: dict[str, Any], seed: int, world: World) -> Request:
    """Greedy for seed 0. A random model would seldom close what it opened, so that is made likelier."""
    closing = {world.tokenizer.encode(text)[-1]: 3.0 for text in '"}]'}
    params = SamplingParams(temperature=0.0 if seed == 0 else 1.0, seed=seed, logit_bias=closing)
    prompt = np.array(world.prompts[seed % len(world.prompts)], np.int32)
    return Request(prompt, params, MAX_TOKENS, gamma=0, grammar=grammar_of(schema))


def check_schema(schema: dict[str, Any], number: int, world: World) -> tuple[int, int]:
    """All seeds: (tokens compared, answers that are complete)."""
    num_tokens = num_complete = 0
    for seed in SEEDS:
        request = request_for(schema, seed, world)
        plain = outcome(world, "none", request)
        for gamma, name in ((5, DRAFTERS[(number + seed) % len(DRAFTERS)]), (9, "grammar")):
            found = outcome(world, name, replace(request, gamma=gamma), plain)
            if isinstance(plain, GrammarError):
                assert str(found) == str(plain)
            else:
                assert isinstance(found, Generation)
                assert (found.token_ids, found.text) == (plain.token_ids, plain.text)
                assert found.finish_reason == plain.finish_reason
                num_tokens += len(found.token_ids)
        if isinstance(plain, Generation) and plain.finish_reason != "length":
            num_complete += 1
            validate(schema, plain.text)
    return num_tokens, num_complete


def outcome(
    world: World, name: str, request: Request, plain: Generation | GrammarError | None = None
) -> Generation | GrammarError:
    """The answer, or why there is none: a schema may demand a byte that no token holds."""
    known = plain.token_ids if isinstance(plain, Generation) else ()
    drafter = make_drafter(name, world, [*request.prompt_ids.tolist(), *known])
    try:
        return run(world, drafter, request)[1]
    except GrammarError as error:
        return error


def validate(schema: dict[str, Any], text: str) -> None:
    """By an independent validator, without references that lead out of the schema."""
    validator = jsonschema.Draft202012Validator(schema, registry=referencing.Registry())
    assert validator.is_valid(json.loads(text)), (schema, text)


def test_answers_fit_their_schemas(world: World, compared: Compared, report: Report) -> None:
    found = [check_schema(random_schema(seed), seed, world) for seed in range(SAMPLE)]
    num_complete = sum(complete for _, complete in found)
    report(f"{SAMPLE} schemas, {num_complete} of {SAMPLE * len(SEEDS)} answers complete")
    assert num_complete > SAMPLE
    compared(sum(tokens for tokens, _ in found))


@pytest.fixture(scope="module")
def schemas(world: World) -> list[dict[str, Any]]:
    public = [schema for schema in suite_schemas() if is_supported(schema, world)]
    assert len(public) > 100
    return [*public, *(random_schema(seed) for seed in range(NUM_SCHEMAS))][:NUM_SCHEMAS]


@pytest.mark.proof
@pytest.mark.parametrize("part", range(NUM_SCHEMAS // PART))
def test_answers_fit_500_schemas(
    world: World, schemas: list[dict[str, Any]], part: int, compared: Compared, report: Report
) -> None:
    numbers = range(part * PART, (part + 1) * PART)
    found = [check_schema(schemas[number], number, world) for number in numbers]
    num_complete = sum(complete for _, complete in found)
    report(f"{num_complete} of {PART * len(SEEDS)} answers complete")
    assert num_complete > PART
    compared(sum(tokens for tokens, _ in found))


def test_an_answer_that_does_not_fit_is_caught() -> None:
    with pytest.raises(AssertionError):
        validate({"type": "integer"}, '"text"')

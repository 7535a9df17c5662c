"""Structured output through the library: texts, ends, objects, and what is refused."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guessahead.errors import GrammarError, ParameterError
from guessahead.model import LanguageModel, load
from tests.support.tiny import tiny_gguf

PROMPT = "the fox"


@pytest.fixture(scope="module")
def lm(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    return load(tiny_gguf(tmp_path_factory.mktemp("model") / "tiny.gguf", "llama", seed=5).path, threads=1)


@dataclass
class Animal:
    name: str
    legs: int


def generate(lm: LanguageModel, **options: Any) -> Any:
    return lm.generate(PROMPT, raw=True, **({"max_tokens": 300, "seed": 3} | options))


def test_a_choice_ends_by_itself(lm: LanguageModel) -> None:
    for seed in range(8):
        found = generate(lm, choice=["the fox", "the for", "self"], temperature=2.0, seed=seed)
        assert found.text in ("the fox", "the for", "self")
        assert found.finish_reason == "stop"
        assert found.parsed is None


def test_a_regex_matches_the_whole_text(lm: LanguageModel) -> None:
    texts = {generate(lm, regex="x{2,3}y?", temperature=9.0, seed=seed).text for seed in range(20)}
    assert texts <= {"xx", "xxx", "xxy", "xxxy"}
    assert len(texts) > 1


def test_a_lark_grammar(lm: LanguageModel) -> None:
    grammar = 'start: item ("," item)* ";"\nitem: "a" | "b"'
    found = generate(lm, grammar=grammar, temperature=1.0)
    assert set(found.text[:-1].split(",")) <= {"a", "b"}
    assert found.text.endswith(";")


def test_a_schema_gives_an_object(lm: LanguageModel) -> None:
    schema = {
        "type": "object",
        "properties": {
            "name": {"enum": ["ox", "fox"]},
            "legs": {"type": "integer", "minimum": 2, "maximum": 4},
        },
        "required": ["name", "legs"],
        "additionalProperties": False,
    }
    found = generate(lm, schema=schema)
    assert found.parsed == json.loads(found.text)
    assert json.dumps(found.parsed) == found.text, "one line, as json.dumps writes it"
    assert found.finish_reason == "stop"
    assert generate(lm, schema=schema, max_tokens=4).parsed is None


def test_a_dataclass_gives_its_object(lm: LanguageModel) -> None:
    bias = {lm.tokenizer.encode('"')[-1]: 9.0}
    found = generate(lm, schema=Animal, logit_bias=bias, temperature=1.0)
    assert isinstance(found.parsed, Animal)
    assert json.loads(found.text) == vars(found.parsed)


def test_any_json(lm: LanguageModel) -> None:
    bias = {lm.tokenizer.encode(text)[-1]: 6.0 for text in '"}]'}
    for seed in range(5):
        found = generate(lm, schema={}, temperature=1.0, seed=seed, logit_bias=bias)
        if found.finish_reason != "length":
            json.loads(found.text)


def test_log_probabilities_are_those_of_what_is_allowed(lm: LanguageModel) -> None:
    for gamma in (0, 5):
        found = generate(lm, regex="(xx|xyx|yx)", logprobs=5, gamma=gamma, drafter="suffix")
        for each in found.logprobs:
            assert np.exp([value for _, value in each.top]).sum() == pytest.approx(1.0)
            assert -each.logprob >= -1e-9
        assert len(found.logprobs[0].top) < 5


def test_min_tokens_forbids_an_early_end_and_a_stop_string_ends_the_text(lm: LanguageModel) -> None:
    for seed in range(6):
        found = generate(lm, regex="x*", min_tokens=5, max_tokens=9, temperature=1.0, seed=seed)
        assert len(found.token_ids) >= 5
    found = generate(lm, regex="(ab)+c", stop="ba", logit_bias={lm.tokenizer.encode("c")[-1]: -50.0})
    assert (found.text, found.finish_reason) == ("a", "stop")


def test_a_dead_end_is_an_error_with_its_reason(lm: LanguageModel) -> None:
    for gamma in (0, 4):
        banned = {i: -100.0 for i in range(lm.info.vocab_size) if b"y" in lm.tokenizer.token_bytes(i)}
        with pytest.raises(GrammarError, match="banned by logit_bias"):
            generate(lm, regex="xxy", logit_bias=banned, gamma=gamma, drafter="grammar")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"schema": {}, "regex": "a"}, "schema and regex exclude each other"),
        ({"choice": []}, "choice must be"),
        ({"choice": "abc"}, "choice must be"),
        ({"choice": ["a", ""]}, "choice must be"),
        ({"regex": 3}, "regex must be text"),
        ({"grammar": b"start"}, "grammar must be text"),
        ({"schema": 3}, "schema must be"),
    ],
)
def test_options_that_cannot_be_honoured(lm: LanguageModel, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        generate(lm, **options)


def test_the_forced_text_is_drafted(lm: LanguageModel) -> None:
    schema = {"const": "the quick brown fox jumps over the lazy dog"}
    plain = generate(lm, schema=schema, drafter="none")
    found = generate(lm, schema=schema, drafter="grammar", gamma=8)
    assert found.token_ids == plain.token_ids
    assert found.stats.num_accepted > 0
    portfolio = generate(lm, schema=schema, trace=True)
    assert portfolio.token_ids == plain.token_ids


def test_the_command_line(lm: LanguageModel, tmp_path: Path) -> None:
    from click.testing import CliRunner

    from guessahead.cli import main

    model = tiny_gguf(tmp_path / "tiny.gguf", "llama", seed=5).path
    (tmp_path / "schema.json").write_text('{"enum": ["fox", "dog"]}')
    (tmp_path / "text.lark").write_text('start: "fox" | "dog"')
    for given, texts in (
        (["--json-schema", tmp_path / "schema.json"], ('"fox"', '"dog"')),
        (["--grammar", tmp_path / "text.lark"], ("fox", "dog")),
        (["--regex", "fox|dog"], ("fox", "dog")),
        (["--choice", "fox", "--choice", "dog"], ("fox", "dog")),
    ):
        arguments = ["generate", PROMPT, "--raw", "-m", str(model), *map(str, given)]
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == 0, result.output
        assert result.stdout.strip() in texts
    for wrong in (
        ["--json-schema", tmp_path / "none.json"],
        ["--regex", "a("],
        ["--regex", "a", "--choice", "b"],
    ):
        result = CliRunner().invoke(main, ["generate", PROMPT, "--raw", "-m", str(model), *map(str, wrong)])
        assert result.exit_code == 2
        assert len(result.stderr.strip().splitlines()) == 1

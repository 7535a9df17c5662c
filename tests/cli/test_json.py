"""The JSON documents: stable names, and nothing that JSON lacks."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from click.testing import Result

Generate = Callable[..., Result]
Document = Callable[..., dict[str, Any]]

ANSWER = {
    "model",
    "text",
    "token_ids",
    "finish_reason",
    "num_prompt_tokens",
    "seed",
    "logprobs",
    "stats",
}
SOME_STATS = {
    "drafter",
    "gamma",
    "num_tokens",
    "num_passes",
    "num_drafted",
    "num_tested",
    "num_accepted",
    "alpha",
    "tau",
    "tokens_per_second",
    "gb_per_second",
    "num_sweeps_saved",
}


def test_an_answer(document: Document) -> None:
    answer = document()
    assert set(answer) == ANSWER
    assert set(answer["stats"]) >= SOME_STATS
    assert answer["model"] == "tiny"
    assert answer["logprobs"] is None
    assert answer["stats"]["num_tokens"] == len(answer["token_ids"]) == 24


def test_nothing_else_is_printed(generate: Generate) -> None:
    result = generate("--json")
    assert result.stderr == ""
    assert result.stdout.count("\n") == 1


def test_a_rate_without_data_is_null(document: Document) -> None:
    stats = document("--max-tokens", "1")["stats"]
    assert stats["alpha"] is None
    assert stats["tokens_per_second"] is None


def test_logprobs(document: Document) -> None:
    answer = document("--logprobs", "3")
    assert [entry["token_id"] for entry in answer["logprobs"]] == answer["token_ids"]
    for entry in answer["logprobs"]:
        assert set(entry) == {"token_id", "token", "logprob", "top"}
        assert entry["logprob"] <= 0
        assert len(entry["top"]) == 3
        assert entry["top"][0]["token_id"] == entry["token_id"]  # greedy
        assert set(entry["top"][0]) == {"token_id", "token", "logprob"}


def test_minus_infinity_is_null() -> None:
    from types import SimpleNamespace
    from typing import cast

    from guessahead.cli.document import generation_document
    from guessahead.core.stats import Recorder
    from guessahead.types import Generation, TokenLogprob

    stats = Recorder().stats(drafter="none", gamma=0, num_prompt_tokens=1, bytes_per_pass=1)
    lm = cast(Any, SimpleNamespace(name="m", tokenizer=SimpleNamespace(decode=lambda ids: "a")))
    logprobs = (TokenLogprob(0, -0.5, ((0, -0.5), (1, float("-inf")))),)
    document = generation_document(lm, Generation("a", (0,), "eos", 1, 0, stats, logprobs))
    assert json.loads(json.dumps(document, allow_nan=False))["logprobs"] == [
        {
            "token_id": 0,
            "token": "a",
            "logprob": -0.5,
            "top": [
                {"token_id": 0, "token": "a", "logprob": -0.5},
                {"token_id": 1, "token": "a", "logprob": None},
            ],
        }
    ]


def test_a_comparison(document: Document) -> None:
    both = document("--compare", "--repeat", "2", "--logit-bias", "70=100")
    assert set(both) == {
        "model",
        "identical",
        "num_tokens",
        "num_identical",
        "first_difference",
        "num_rounds",
        "plain_tokens_per_second",
        "tokens_per_second",
        "ratio",
        "c",
        "v",
        "predicted_tau",
        "predicted_ratio",
        "plain",
        "speculative",
    }
    assert (both["identical"], both["num_identical"], both["first_difference"]) == (True, 24, None)
    assert both["num_rounds"] == 2
    assert set(both["plain"]) == set(both["speculative"]) == ANSWER
    assert both["plain"]["stats"]["drafter"] == "none"
    assert both["speculative"]["stats"]["tau"] > 2
    assert both["predicted_tau"] > 2

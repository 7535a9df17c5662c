"""Stop strings with control tokens and `min_tokens`: with guesses, without, in library and command line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result

import guessahead as ga
from tests.cli.conftest import run
from tests.support.tiny import TinyModel, tiny_gguf

START, END = "<|im_start|>", "<|im_end|>"
MIN_TOKENS = 7


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> TinyModel:
    return tiny_gguf(tmp_path_factory.mktemp("models") / "tiny.gguf", head_scale=5.0)


@pytest.fixture(scope="module")
def lm(tiny: TinyModel) -> ga.LanguageModel:
    return ga.load(tiny.path, threads=1)


def ids(lm: ga.LanguageModel, *names: str) -> list[int]:
    return [lm.tokenizer.encode(name, special=True, bos=False)[0] for name in names]


Generate = Callable[..., ga.Generation]


@pytest.fixture(params=["none", "prompt-lookup", "suffix", "portfolio"])
def generate(lm: ga.LanguageModel, request: pytest.FixtureRequest) -> Generate:
    """J and <|im_start|> are about as likely, and nothing else is chosen."""
    bias = {ord("J"): 100.0, ids(lm, START)[0]: 100.0}

    def call(**options: Any) -> ga.Generation:
        usual = {"temperature": 5.0, "seed": 3, "max_tokens": 60, "raw": True, "logit_bias": bias}
        return lm.generate("J" * 20, drafter=request.param, gamma=3, **usual | options)

    return call


@pytest.mark.parametrize("stop", [START, f"J{START}", f"{START}J", f"J{START}{START}J", f"{START}{START}"])
@pytest.mark.parametrize("min_tokens", [0, MIN_TOKENS, 30])
def test_it_stops_at_the_token(lm: ga.LanguageModel, generate: Generate, stop: str, min_tokens: int) -> None:
    whole = generate().token_ids
    ends = range(min_tokens + 1, len(whole) + 1)
    number = next(n for n in ends if lm.tokenizer.decode(whole[:n], skip_special=False).endswith(stop))
    found = generate(stop=["never", stop], min_tokens=min_tokens)
    assert found.token_ids == whole[:number]
    assert found.finish_reason == "stop"
    before = lm.tokenizer.decode(found.token_ids, skip_special=False).removesuffix(stop)
    assert found.text == before.replace(START, "")


def test_a_stop_string_that_ends_with_the_end_of_the_text(lm: ga.LanguageModel, generate: Generate) -> None:
    start, end = ids(lm, START, END)
    bias = {ord("J"): 100.0, start: 100.0, end: 90.0}
    ended = generate(max_tokens=200, logit_bias=bias)
    assert (ended.finish_reason, ended.token_ids[-1]) == ("eos", end)
    stop = lm.tokenizer.decode(ended.token_ids[-3:], skip_special=False)
    stopped = generate(max_tokens=200, logit_bias=bias, stop=stop)
    assert (stopped.finish_reason, stopped.token_ids) == ("stop", ended.token_ids)
    assert stopped.text == lm.tokenizer.decode(ended.token_ids[:-3])


def test_min_tokens_holds_for_stop_strings(generate: Generate) -> None:
    bias = {ord("J"): 100.0}
    assert generate(stop="J", logit_bias=bias).text == ""
    found = generate(stop="J", logit_bias=bias, min_tokens=MIN_TOKENS)
    assert (found.text, found.finish_reason, len(found.token_ids)) == (
        "J" * MIN_TOKENS,
        "stop",
        MIN_TOKENS + 1,
    )
    found = generate(stop="J", logit_bias=bias, min_tokens=MIN_TOKENS, max_tokens=MIN_TOKENS)
    assert (found.text, found.finish_reason) == ("J" * MIN_TOKENS, "length")


@pytest.mark.parametrize("mark", [(), ("--show-draft",), ("--compare",)])
def test_the_command_line_stops_there_too(
    tiny: TinyModel, lm: ga.LanguageModel, mark: tuple[str, ...]
) -> None:
    def said(*arguments: str) -> Result:
        fixed = ("--max-tokens", "12", "--drafter", "none", "--logit-bias", f"{ord('J')}=100")
        result = run("generate", "-m", str(tiny.path), *fixed, *mark, *arguments, "JJJJ")
        assert result.exit_code == 0, result.output
        return result

    assert said("--stop", "J", "--min-tokens", str(MIN_TOKENS)).stdout == "J" * MIN_TOKENS + "\n"
    assert said("--stop", "JJJ", "--min-tokens", str(MIN_TOKENS)).stdout == "J" * (MIN_TOKENS - 2) + "\n"
    (start,) = ids(lm, START)
    assert said("--stop", START, "--logit-bias", f"{start}=90").stdout == "J" * 12 + "\n"


def test_a_chat_stops_there_too(tiny: TinyModel) -> None:
    fixed = ("--max-tokens", "12", "--drafter", "none", "--logit-bias", f"{ord('J')}=100")
    result = run("chat", "-m", str(tiny.path), *fixed, "--stop", "J", "--min-tokens", "7", stdin=b"JJ\n")
    assert result.stdout == "J" * MIN_TOKENS + "\n"

"""What the caller got wrong is one line on stderr and exit code 2: no traceback, no crash, no hang."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from guessahead.cli import main
from tests.checkpoints.folders.making import write_folder
from tests.cli.conftest import PROMPT, one_line, process, run, truncated
from tests.support.rewriting import broken
from tests.support.second_tokenizer import with_other_tokenizer
from tests.support.tiny import TinyModel, tiny_gguf

Generate = Callable[..., Result]


def refused(result: Result, *words: str) -> None:
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    one_line(result.stderr, *words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--temperature", "-1"), ("temperature",)),
        (("--temperature", "nan"), ("temperature",)),
        (("--top-k", "-1"), ("top_k",)),
        (("--top-p", "0"), ("top_p",)),
        (("--min-p", "1.5"), ("min_p",)),
        (("--repetition-penalty", "0"), ("repetition_penalty",)),
        (("--frequency-penalty", "3"), ("frequency_penalty",)),
        (("--presence-penalty", "-3"), ("presence_penalty",)),
        (("--logit-bias", "99999999=1"), ("99999999",)),
        (("--logit-bias", "1"), ("--logit-bias", "ID=VALUE")),
        (("--logit-bias", "a=1"), ("--logit-bias", "ID=VALUE")),
        (("--logit-bias", "1=1", "--logit-bias", "1=2"), ("1", "twice")),
        (("--min-tokens", "99"), ("min_tokens", "max_tokens")),
        (("--max-tokens", "0"), ("max_tokens",)),
        (("--gamma", "-1"), ("gamma",)),
        (("--gamma", "few"), ("--gamma", "few", "generate --help")),
        (("--seed", "-1"), ("seed",)),
        (("--stop", ""), ("stop",)),
        (("--threads", "0"), ("threads",)),
        (("--context", "0"), ("context",)),
        (("--activations", "f16"), ("--activations", "int8", "f32")),
        (("--drafter", "oracle"), ("oracle", "prompt-lookup")),
        (("--drafter", "draft-model"), ("draft model",)),
        (("-o", "window=3"), ("window", "max_ngram")),
        (("-o", "min_ngram=two"), ("min_ngram", "two")),
        (("-o", "min_ngram=9"), ("min_ngram",)),
        (("-o", "min_ngram"), ("--drafter-option", "NAME=VALUE")),
        (("--raw", "--system", "x"), ("system", "raw")),
        (("--logprobs", "2"), ("--logprobs", "--json")),
        (("--acceptance", "exact"), ("acceptance", "exact", "identical", "rejection")),
        (("--acceptance", "rejection", "--temperature", "1", "--compare"), ("rejection", "compare")),
        (("--json", "--logprobs", "-1"), ("logprobs",)),
        (("--json", "--show-draft"), ("--show-draft", "--json")),
        (("--repeat", "2"), ("--repeat", "--compare")),
        (("--repeat", "0", "--compare"), ("--repeat",)),
        (("--trace", "no/such/folder/t.json"), ("--trace", "no/such/folder")),
        (("--frobnicate",), ("--frobnicate", "generate --help")),
    ],
    ids=lambda value: " ".join(value),
)
def test_impossible_parameters(
    generate: Generate, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    refused(generate(*arguments), *words)


def test_no_prompt(generate: Generate) -> None:
    refused(generate("--raw", prompt=""), "empty")


def test_a_prompt_that_fills_the_context(generate: Generate) -> None:
    refused(generate("--context", "8"), "context of 8")


def test_a_prompt_that_is_not_utf8(generate: Generate) -> None:
    refused(generate(prompt="-", stdin=b"caf\xe9"), "UTF-8", "byte 3")
    refused(generate(prompt="caf\udce9"), "UTF-8")


def test_unknown_names() -> None:
    refused(run("generate", "-m", "smollm3", PROMPT), "smollm3", "smollm2-135m")
    refused(run("generate", "-m", "no/such.gguf", PROMPT), "no/such.gguf")
    refused(run("pull", "smollm3"), "smollm3", "smollm2-135m")
    refused(run("generat", PROMPT), "generat")
    refused(run("generate"), "PROMPT")


def test_a_draft_model_for_a_drafter_without_one(generate: Generate, tiny: TinyModel) -> None:
    refused(generate("--draft-model", str(tiny.path), "--drafter", "prompt-lookup"), "prompt-lookup")


def test_a_folder_and_a_text_file(tmp_path: Path) -> None:
    refused(run("generate", "-m", str(tmp_path), PROMPT), "folder")
    (tmp_path / "notes.gguf").write_text("not a model at all, but long enough for a header\n" * 9)
    refused(run("generate", "-m", str(tmp_path / "notes.gguf"), PROMPT), "notes.gguf")


@pytest.mark.parametrize("num_bytes", [0, 3, 20, 500, 5000, -4000, -1])
def test_a_truncated_model(tiny: TinyModel, tmp_path: Path, num_bytes: int) -> None:
    path = truncated(tiny.path, tmp_path / "short.gguf", num_bytes)
    refused(run("generate", "-m", str(path), PROMPT), "short.gguf")


def test_a_truncated_model_as_a_process(tiny: TinyModel, tmp_path: Path) -> None:
    path = truncated(tiny.path, tmp_path / "short.gguf", -4000)
    finished = process("generate", "-m", str(path), PROMPT)
    assert finished.returncode == 2
    assert finished.stdout == b""
    one_line(finished.stderr.decode(), "short.gguf")


def test_an_unsupported_architecture(tiny: TinyModel, tmp_path: Path) -> None:
    path = tmp_path / "mamba.gguf"
    path.write_bytes(tiny.path.read_bytes().replace(b"llama", b"mamba"))
    refused(run("generate", "-m", str(path), PROMPT), "mamba")


def test_an_unknown_tokenizer(tmp_path: Path) -> None:
    model = tiny_gguf(tmp_path / "odd.gguf", pre="unheard-of")
    refused(run("generate", "-m", str(model.path), PROMPT), "unheard-of")


def test_a_pair_with_different_tokenizers_works(generate: Generate, tiny: TinyModel, tmp_path: Path) -> None:
    other = str(with_other_tokenizer(tiny.path, tmp_path / "other.gguf"))
    plain = generate("--drafter", "none")
    for draft_model, note in ((other, "another tokenizer: drafts as text"), (tiny.path, "same tokenizer")):
        ours = generate("--draft-model", str(draft_model))
        assert (ours.exit_code, ours.stdout) == (0, plain.stdout)
        assert note in ours.stderr


def test_a_draft_model_that_cannot_serve_the_classic_rule(
    generate: Generate, tiny: TinyModel, tmp_path: Path
) -> None:
    other = str(with_other_tokenizer(tiny.path, tmp_path / "other.gguf"))
    options = ("--draft-model", other, "--temperature", "1", "--acceptance", "rejection")
    refused(generate(*options), "draft-model", "another tokenizer", "rejection", "identical")


def test_a_draft_model_that_has_no_lower_precision(generate: Generate, tiny: TinyModel) -> None:
    options = ("--draft-model", str(tiny.path), "--drafter", "draft-model", "-o")
    refused(generate(*options, "precision=q4"), "5.0 bits a weight already", "Q4_1")
    refused(generate(*options, "precision=q8"), "Q8_0", "leave precision out")
    refused(generate(*options, "precision=q2"), "precision must be q4 or q8", "'q2'")


def test_convert(tiny: TinyModel, tmp_path: Path) -> None:
    source, target = str(tiny.path), tmp_path / "out.gguf"
    refused(run("convert", source, str(target), "--type", "Q3"), "Q3", "F16")
    refused(run("convert", source, str(tmp_path / "no" / "out.gguf"), "--type", "F16"), "no")
    refused(run("convert", str(tmp_path / "none.gguf"), str(target), "--type", "F16"), "none.gguf")
    target.write_text("precious")
    refused(run("convert", source, str(target), "--type", "F16"), "exists", "--force")
    assert target.read_text() == "precious"


def test_debug_adds_the_traceback(generate: Generate) -> None:
    result = generate("--debug", "--gamma", "-1")
    assert result.exit_code == 2
    assert "Traceback" in result.stderr
    assert result.stderr.splitlines()[-1].startswith("guessahead: gamma")


def test_a_bug_of_ours_is_told_in_one_line_too(generate: Generate, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object) -> None:
        raise KeyError("lost")

    monkeypatch.setattr("guessahead.core.step.accept", broken)
    result = generate()
    assert result.exit_code == 1
    one_line(result.stderr, "internal error", "KeyError", "lost", "--debug")


def test_usage_errors_name_the_help() -> None:
    result = run("models", "extra")
    refused(result, "extra", "`guessahead models --help`" if main.name == "guessahead" else "models --help")


def test_settings_that_are_ignored_are_a_line(tmp_path: Path) -> None:
    """The answer is on stdout, what was ignored on stderr, once."""
    tiny = tiny_gguf(tmp_path / "tiny.gguf", format="F32")
    folder = write_folder(tmp_path / "folder", tiny, fancy=1)
    result = run("generate", "-m", str(folder), "--max-tokens", "2", "--raw", "--", "the")
    assert result.exit_code == 0, result.output
    lines = [line for line in result.stderr.splitlines() if "fancy" in line]
    assert len(lines) == 1
    one_line(lines[0] + "\n", "config.json", "ignored, as LlamaForCausalLM has no such setting: 'fancy'")


@pytest.mark.parametrize("name", ["split.gguf", "folder"])
def test_models_that_are_not_whole(tmp_path: Path, name: str) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n"
    tiny = tiny_gguf(tmp_path / "tiny.gguf", format="F32")
    path = tmp_path / name
    if name == "folder":
        write_folder(path, tiny)
        (path / "model.safetensors").write_text(pointer)
    else:
        path.write_text(pointer)
    refused(run("generate", "-m", str(path), "--raw", "--", "the"), "Git LFS pointer", "git lfs pull")


@pytest.mark.parametrize(
    "arguments",
    [
        ("generate", "--raw", PROMPT),
        ("generate", "--compare", PROMPT),
        ("acceptance", "--drafter", "suffix", "TEXT"),
        ("bench", "passes", "--contexts", "64"),
    ],
    ids=" ".join,
)
def test_a_model_with_numbers_that_are_not_finite(
    tiny: TinyModel, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    path = broken(tiny.path, tmp_path / "damaged.gguf", "blk.1.ffn_up", float("nan"))
    (tmp_path / "text.txt").write_text(PROMPT * 3)
    named = [str(tmp_path / "text.txt") if each == "TEXT" else each for each in arguments]
    words = named.index("passes") + 1 if "passes" in named else 1
    result = run(*named[:words], "-m", str(path), *named[words:])
    assert result.exit_code == 2, result.output
    assert "the model 'damaged' computes numbers that are not finite, first in layer 1 of 2" in result.stderr
    assert "Traceback" not in result.stderr

"""Prompts and files in other encodings, with byte order marks, and in locales that are not UTF-8."""

from __future__ import annotations

import codecs
import json
import locale
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from guessahead.files import decode, read_text
from guessahead.measure.bench.workload import read_tasks
from tests.cli.conftest import PROMPT, process, run
from tests.support.tiny import TinyModel

Generate = Callable[..., Result]
MARKED = {
    "utf-8": codecs.BOM_UTF8,
    "utf-16-le": codecs.BOM_UTF16_LE,
    "utf-16-be": codecs.BOM_UTF16_BE,
    "utf-32-le": codecs.BOM_UTF32_LE,
    "utf-32-be": codecs.BOM_UTF32_BE,
}
TEXT = "the café, 世界 👍\n"


@pytest.mark.parametrize("encoding", MARKED)
def test_a_byte_order_mark_says_the_encoding(encoding: str, tmp_path: Path) -> None:
    data = MARKED[encoding] + TEXT.encode(encoding)
    assert decode(data) == TEXT
    (tmp_path / "text").write_bytes(MARKED[encoding] + TEXT.replace("\n", "\r\n").encode(encoding))
    assert read_text(tmp_path / "text") == TEXT
    assert decode(TEXT.encode() + MARKED["utf-8"]) == TEXT + "\ufeff"
    with pytest.raises(UnicodeDecodeError):
        decode(MARKED[encoding] + TEXT.strip().encode(encoding)[:-1])


@pytest.mark.parametrize("encoding", MARKED)
@pytest.mark.parametrize("arguments", [(), ("--raw",)])
def test_a_prompt_with_a_byte_order_mark(
    generate: Generate, encoding: str, arguments: tuple[str, ...]
) -> None:
    expected = generate(*arguments, prompt="-", stdin=TEXT.encode())
    found = generate(*arguments, prompt="-", stdin=MARKED[encoding] + TEXT.encode(encoding))
    assert (found.exit_code, found.stdout) == (0, expected.stdout)


@pytest.mark.parametrize("option", ["prompt", "--system", "--stop"])
def test_an_argument_with_a_byte_order_mark(generate: Generate, option: str) -> None:
    def said(text: str) -> str:
        result = generate(prompt=text) if option == "prompt" else generate(option, text)
        assert result.exit_code == 0
        return result.stdout

    text = generate().stdout[3:5] if option == "--stop" else "hello"
    assert said("\ufeff" + text) == said(text)
    if option == "--stop":
        assert said(text) != generate().stdout


def test_a_prompt_in_the_encoding_of_the_locale(generate: Generate, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = generate(prompt="-", stdin="café".encode())
    monkeypatch.setattr(locale, "getencoding", lambda: "ISO-8859-1")
    assert generate(prompt="-", stdin=b"caf\xe9").stdout == expected.stdout
    assert generate(prompt="-", stdin="café".encode()).stdout == expected.stdout, "UTF-8 is tried first"


@pytest.mark.parametrize("option", ["prompt", "--system", "--stop"])
def test_arguments_in_a_locale_of_ascii_only(tiny: TinyModel, option: str) -> None:
    """They are what they are in a locale of UTF-8."""
    fixed = ["-m", str(tiny.path), "--max-tokens", "8", "--drafter", "none"]
    given = ["café 世界"] if option == "prompt" else [PROMPT, option, "café 世界"]
    ascii_only = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    found = process("generate", "--json", *fixed, *given, environment=ascii_only)
    expected = process("generate", "--json", *fixed, *given, environment={"LC_ALL": "C.UTF-8"})
    assert found.returncode == 0, found.stderr
    documents = [json.loads(each.stdout) for each in (found, expected)]
    assert documents[0]["token_ids"] == documents[1]["token_ids"]
    assert documents[0]["num_prompt_tokens"] == documents[1]["num_prompt_tokens"]


def test_text_files_with_a_byte_order_mark(tiny: TinyModel, tmp_path: Path) -> None:
    text, marked, wide = tmp_path / "a", tmp_path / "b", tmp_path / "c"
    text.write_text(PROMPT)
    marked.write_bytes(codecs.BOM_UTF8 + PROMPT.encode())
    wide.write_bytes(codecs.BOM_UTF16_LE + PROMPT.encode("utf-16-le"))
    result = run(
        "acceptance", *map(str, (text, marked, wide)), "-m", str(tiny.path), "--json", "--gamma", "1"
    )
    assert result.exit_code == 0, result.output
    one, two, three = (found["num_tokens"] for found in json.loads(result.stdout)["texts"])
    assert one == two == three


def test_lines_of_json(tmp_path: Path) -> None:
    """With the marks of two files that were joined, and characters that end lines elsewhere."""
    path, odd = tmp_path / "prompts.jsonl", "one\u2028two\x85three"
    lines = [json.dumps({"id": i, "category": "x", "prompt": odd}, ensure_ascii=False) for i in ("a", "b")]
    path.write_bytes("".join("\ufeff" + line + "\r\n" for line in lines).encode())
    assert [task.prompt for task in read_tasks(path)] == [odd, odd]


def test_a_trace_with_a_byte_order_mark(generate: Generate, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    assert generate("--trace", str(trace)).exit_code == 0
    trace.write_bytes(codecs.BOM_UTF8 + trace.read_bytes())
    assert run("report", str(trace), "-o", str(tmp_path / "page.html")).exit_code == 0

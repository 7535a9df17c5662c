"""`guessahead chat`: as a pipe, and in a terminal."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

import guessahead as ga
from guessahead.cli.chat import Chat
from tests.cli.conftest import one_line, process, run
from tests.support.tiny import TinyModel

Chatting = Callable[..., Result]
LENGTH = ("--max-tokens", "12")


@pytest.fixture
def chat(tiny: TinyModel) -> Chatting:
    def call(*lines: str, arguments: tuple[str, ...] = ()) -> Result:
        stdin = "".join(f"{line}\n" for line in lines).encode()
        return run("chat", "-m", str(tiny.path), *LENGTH, *arguments, stdin=stdin)

    return call


@pytest.fixture(scope="module")
def lm(tiny: TinyModel) -> ga.LanguageModel:
    return ga.load(tiny.path)


def test_each_line_is_a_message_and_the_history_counts(chat: Chatting, lm: ga.LanguageModel) -> None:
    result = chat("the quick brown fox", "", "jumps over")
    assert result.exit_code == 0, result.output
    messages = [{"role": "user", "content": "the quick brown fox"}]
    first = lm.chat(messages, max_tokens=12).text
    messages += [{"role": "assistant", "content": first}, {"role": "user", "content": "jumps over"}]
    second = lm.chat(messages, max_tokens=12).text
    expected = "".join(text if text.endswith("\n") else text + "\n" for text in (first, second))
    assert result.stdout == expected
    assert result.stderr == ""


@pytest.mark.parametrize("drafter", ["suffix", "draft-model"])
def test_a_second_turn_equals_that_of_a_fresh_process(
    tiny: TinyModel, lm: ga.LanguageModel, drafter: str
) -> None:
    """It goes on from the cache of the first turn; the other process reads everything."""
    settings = [*LENGTH, "--temperature", "0.9", "--seed", "5", "--repetition-penalty", "1.2", "--gamma", "3"]
    settings += ["--presence-penalty", "0.4", "-m", str(tiny.path)]
    second = ["--draft-model", str(tiny.path)] if drafter == "draft-model" else []
    lines = ["the quick brown fox", "jumps over the lazy dog"]
    chatted = process("chat", *settings, "--drafter", drafter, *second, input="\n".join(lines).encode())
    answers = chatted.stdout.decode()
    assert lm.chat_template is not None
    messages: list[dict[str, str]] = []
    for line in lines:
        messages.append({"role": "user", "content": line})
        rendered = lm.chat_template.render(messages)
        alone = process("generate", *settings, "--drafter", "none", "--raw", rendered).stdout.decode()
        assert answers.startswith(alone)
        answers = answers.removeprefix(alone)
        messages.append({"role": "assistant", "content": alone.removesuffix("\n")})
    assert not answers


def test_the_second_turn_reads_only_what_is_new(chat: Chatting) -> None:
    figures = chat("the quick brown fox", "/stats", "jumps over", "/stats").stderr.splitlines()
    first, second = (line for line in figures if line.startswith("  tokens "))
    assert "in the cache" not in first
    assert "in the cache" in second
    again = chat("the quick brown fox", "/reset", "the quick brown fox", "/stats").stderr
    assert "in the cache" not in again, "a new conversation begins with nothing"


def test_reset_forgets(chat: Chatting) -> None:
    once = chat("the quick brown fox").stdout
    result = chat("the lazy dog", "/reset", "the quick brown fox")
    assert result.stdout.endswith(once)
    assert result.stderr == "a new conversation\n"


def test_options_count(chat: Chatting, lm: ga.LanguageModel) -> None:
    settings = ("--temperature", "1.5", "--seed", "4", "--system", "lazy")
    expected = lm.generate("fox", max_tokens=12, temperature=1.5, seed=4, system="lazy").text
    assert chat("fox", arguments=settings).stdout.rstrip("\n") == expected.rstrip("\n")


def test_stats_and_compare(chat: Chatting) -> None:
    settings = ("--temperature", "1", "--seed", "4")
    result = chat("the quick brown fox", "/stats", "/compare", arguments=settings)
    assert result.exit_code == 0, result.output
    assert "  tokens " in result.stderr
    assert "  text " in result.stderr
    assert "identical: yes (12/12 tokens)" in result.stderr


def test_compare_has_no_meaning_with_the_classic_rule(chat: Chatting) -> None:
    arguments = ("--temperature", "1", "--acceptance", "rejection")
    result = chat("the quick brown fox", "/compare", arguments=arguments)
    assert result.exit_code == 0, result.output
    assert "acceptance 'rejection'" in result.stderr
    assert "identical: " not in result.stderr


def test_drafter(chat: Chatting) -> None:
    result = chat("/drafter", "/drafter none", "the fox", "/stats", "/drafter nobody", "/drafter draft-model")
    lines = result.stderr.splitlines()
    assert lines[1].startswith("drafter none; known: ")
    assert "guessed," not in result.stderr
    assert lines[-2].startswith("unknown drafter 'nobody'")
    assert lines[-1] == "draft-model needs a second model: start with --draft-model"


def test_help_quit_and_what_is_unknown(chat: Chatting) -> None:
    result = chat("/help", "/nonsense", "/stats", "/quit", "the quick brown fox")
    assert result.exit_code == 0
    assert result.stdout == ""
    for name in ("/stats", "/compare", "/drafter", "/reset", "/help", "/quit"):
        assert f"{name} " in result.stderr
    assert "unknown command /nonsense" in result.stderr
    assert "no finished answer" in result.stderr


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("/etc/passwd has users", "/etc/passwd has users"),
        ("/2 = 1?", "/2 = 1?"),
        ("/ is division", "/ is division"),
        (" /help me", "/help me"),
        ("//help me", "/help me"),
        ("//stats", "/stats"),
        ("// a comment", "/ a comment"),
        ("///", "//"),
    ],
)
def test_a_message_may_begin_with_a_slash(
    chat: Chatting, lm: ga.LanguageModel, line: str, message: str
) -> None:
    result = chat(line)
    assert result.stdout.rstrip("\n") == lm.generate(message, max_tokens=12).text.rstrip("\n")
    assert result.stderr == ""


@pytest.mark.parametrize("line", ["/etc is a folder", "/Stats", "/quit now"])
def test_what_looks_like_a_command_says_how_to_send_it(chat: Chatting, line: str) -> None:
    result = chat(line)
    assert result.stdout == ""
    assert f"unknown command {line.split()[0]}" in result.stderr
    assert f"/{line} is a message" in result.stderr


def test_a_byte_order_mark_is_no_part_of_the_message(tiny: TinyModel, chat: Chatting) -> None:
    marked = run("chat", "-m", str(tiny.path), *LENGTH, stdin="\ufeffhello\n".encode())
    assert marked.stdout == chat("hello").stdout


def test_a_message_that_does_not_fit_is_dropped(chat: Chatting, lm: ga.LanguageModel) -> None:
    result = chat("fox " * 2000, "the quick brown fox")
    assert "context" in result.stderr
    expected = lm.generate("the quick brown fox", max_tokens=12).text
    assert result.stdout.rstrip("\n") == expected.rstrip("\n")


def test_input_that_is_not_utf8(tiny: TinyModel) -> None:
    result = run("chat", "-m", str(tiny.path), stdin=b"\xff\n")
    assert result.exit_code == 2
    one_line(result.stderr, "not UTF-8")


def test_an_interrupted_answer_stays_as_far_as_it_came(
    lm: ga.LanguageModel, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[Any] = []

    class Stream:
        def __enter__(self) -> Stream:
            return self

        def __exit__(self, *error: object) -> None: ...

        def __iter__(self) -> Any:
            yield ga.Chunk("half", (1,), ("target",))
            raise KeyboardInterrupt

    def stream(messages: Any, **arguments: Any) -> Stream:
        asked.append(messages)
        return Stream()

    conversation = Chat(lm, {})
    monkeypatch.setattr(conversation._session, "stream", stream)
    assert conversation.take("one")
    assert conversation.take("/stats")
    assert conversation.take("two")
    assert [message["content"] for message in asked[1]] == ["one", "half", "two"]
    captured = capsys.readouterr()
    assert captured.out == "half\nhalf\n"
    assert "no finished answer" in captured.err


def test_a_terminal_has_a_prompt_and_colours(tiny: TinyModel, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "HOME": str(tmp_path)}
    environment.pop("NO_COLOR", None)
    itself = ("--draft-model", str(tiny.path), "--gamma", "3")  # so that all guesses are right
    command = [sys.executable, "-m", "guessahead", "chat", "-m", str(tiny.path), *LENGTH, *itself]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    screen = _until(ours, b"> ")
    assert b"/help lists the commands" in screen
    os.write(ours, b"the quick brown fox jumps over the quick brown fox\n")
    assert b"\x1b[3" in _until(ours, b"\n> ")  # a colour: something was guessed
    os.write(ours, b"\x04")  # Ctrl-D
    assert process.wait(60) == 0
    os.close(ours)


def _until(terminal: int, ending: bytes) -> bytes:
    """What the terminal shows up to `ending`."""
    shown = b""
    while not shown.replace(b"\r", b"").replace(b"\x1b[?2004h", b"").endswith(ending):
        ready, _, _ = select.select([terminal], [], [], 60)
        assert ready, shown
        shown += os.read(terminal, 4096)
    return shown

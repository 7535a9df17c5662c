"""Random chat templates of all that the sandbox passes on to Jinja, and Jinja's own rendering of them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from typing import Any

from jinja2.exceptions import TemplateRuntimeError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

WORDS = ("a", "B c", " é\n", "<|x|>", "", "1", "世界", "it's \\\"", "aXbXc")


class Writer:
    """Writes one template: expressions have a type, so most of them render."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._names: dict[str, list[str]] = {"text": ["bos_token"], "number": [], "list": []}

    def template(self) -> str:
        begin = "{% set ns = namespace(text='', number=0, list=[]) %}"
        begin += "{% macro show(t, n=1) %}[{{ t }}{{ n * 2 }}]{% endmacro %}\n"
        return begin + self.block(2)

    def block(self, depth: int) -> str:
        return "".join(self.statement(depth) for _ in range(self._rng.randint(1, 4)))

    def statement(self, depth: int) -> str:
        kinds: list[Callable[[int], str]] = [self.literal, self.output, self.assign]
        if depth:
            kinds += [self.choice, self.loop, self.capture, self.messages]
        return self._rng.choice(kinds)(depth)

    def literal(self, _: int) -> str:
        return self._rng.choice(("\n", "  \n  ", "text ", "{# a comment #}\n", "<|im_start|>"))

    def output(self, _: int) -> str:
        left, right = self._rng.choice(("{{", "{{-")), self._rng.choice(("}}", "-}}"))
        return f"{left} {self.any(3)} {right}"

    def assign(self, _: int) -> str:
        kind = self._rng.choice(("text", "number", "list"))
        if self._rng.random() < 0.5:
            return self.tag(f"set ns.{kind} = {getattr(self, kind)(3)}")
        name = f"{kind}{self._rng.randint(0, 3)}"
        line = self.tag(f"set {name} = {getattr(self, kind)(3)}")
        self._names[kind].append(name)
        return line

    def choice(self, depth: int) -> str:
        inner = self.scoped(depth), self.scoped(depth), self.scoped(depth)
        return (
            self.tag(f"if {self.truth(2)}")
            + inner[0]
            + self.tag(f"elif {self.truth(2)}")
            + f"{inner[1]}{self.tag('else')}{inner[2]}{self.tag('endif')}"
        )

    def loop(self, depth: int) -> str:
        condition = f" if {self.truth(1)}" if self._rng.random() < 0.3 else ""
        items = self.list(2)
        stop = self.tag("if loop.index > 2") + self.tag(self._rng.choice(("break", "continue")))
        body = self.scoped(depth, text="item", number="loop.index0")
        return (
            self.tag(f"for item in {items}{condition}")
            + (f"{stop}{self.tag('endif')}" if self._rng.random() < 0.3 else "")
            + f"{body}{{{{ loop.last }}}}{self.tag('else')}none{self.tag('endfor')}"
        )

    def messages(self, depth: int) -> str:
        body = self.scoped(depth, text=self._rng.choice(("m.content", "m['role']")), number="loop.revindex")
        items = self._rng.choice(("messages", "messages[1:]", "messages | reverse", "messages[::-1]"))
        return self.tag(f"for m in {items}") + body + self.tag("endfor")

    def capture(self, depth: int) -> str:
        body = self.scoped(depth)
        if self._rng.random() < 0.5:
            return (
                self.tag(f"filter {self._rng.choice(('upper', 'trim', 'indent(3)'))}")
                + body
                + (self.tag("endfilter"))
            )
        line = self.tag("set block") + body + self.tag("endset")
        self._names["text"].append("block")
        return line

    def tag(self, inside: str) -> str:
        left, right = self._rng.choice(("{%", "{%-")), self._rng.choice(("%}", "-%}", "%}\n"))
        return f"{left} {inside} {right}"

    def scoped(self, depth: int, **names: str) -> str:
        """A block, whose own names end with it."""
        before = {kind: list(known) for kind, known in self._names.items()}
        for kind, name in names.items():
            self._names[kind].append(name)
        body = self.block(depth - 1)
        self._names = before
        return body

    def any(self, depth: int) -> str:
        return self._rng.choice((self.text, self.text, self.number, self.list, self.truth, self.mapping))(
            depth
        )

    def text(self, depth: int) -> str:
        if not depth or self._rng.random() < 0.2:
            return self._rng.choice([*self._names["text"], "ns.text", *(f'"{word}"' for word in WORDS)])
        one, two, number, items = (
            self.text(depth - 1),
            self.text(depth - 1),
            self.number(depth - 1),
            self.list(depth - 1),
        )
        method = self._rng.choice(("strip()", "upper()", "title()", "lstrip('a ')", f"replace('X', {two})"))
        form = self._rng.choice(
            ("trim", "lower", "capitalize", "string", "e", "default('d')", "indent", "safe")
        )
        return self._rng.choice(
            (
                f"({one} + {two})",
                f"({one} ~ {number} ~ {two})",
                f"({one}).{method}",
                f"({one} | {form})",
                f"(({one} ~ 'aXbX') | replace('X', {two}))",
                f"({items} | join({one}))",
                f"({one}).join({items})",
                f"({one})[:{number}]",
                f"({one} if {self.truth(depth - 1)} else {two})",
                f"({one} * 2)",
                f"({items} | tojson)",
                f"show({one}, n={number})",
                f"({items} | first | default({one}))",
            )
        )

    def number(self, depth: int) -> str:
        if not depth or self._rng.random() < 0.3:
            return self._rng.choice([*self._names["number"], "ns.number", "0", "1", "3", "-2"])
        one, two = self.number(depth - 1), self.number(depth - 1)
        return self._rng.choice(
            (
                f"({one} + {two})",
                f"({one} * {two})",
                f"({one} // {two})",
                f"({one} % 5)",
                f"-{one}" if one[0] != "-" else one,
                f"({one} | abs)",
                f"({self.text(depth - 1)} | length)",
                f"({self.list(depth - 1)} | length)",
                f"({self.text(depth - 1)}).find('b')",
                f"({self.text(depth - 1)} | int(4))",
            )
        )

    def list(self, depth: int) -> str:
        if not depth or self._rng.random() < 0.2:
            return self._rng.choice([*self._names["list"], "ns.list", "['a', 'b', 'a']", "[]"])
        one, word = self.list(depth - 1), self.text(depth - 1)
        return self._rng.choice(
            (
                f"[{word}, {self.text(depth - 1)}]",
                f"({one} + [{word}])",
                f"({one})[1:]",
                f"({word}).split()",
                f"({word}).split('X')",
                f"({one} | map('upper') | list)",
                f"({one} | sort)",
                f"({one} | unique | list)",
                f"({one} | reverse | list)",
                f"({one} | select('ne', {word}) | list)",
                "(messages | map(attribute='content') | list)",
                "(messages | selectattr('role', 'equalto', 'user') | map(attribute='role') | list)",
            )
        )

    def mapping(self, depth: int) -> str:
        entries = f"{{'b': {self.text(depth - 1)}, 'a': {self.number(depth - 1)}}}"
        indent = self._rng.choice(("", "(indent=2)", "(sort_keys=true)"))
        return self._rng.choice((f"({entries} | tojson{indent})", f"({entries} | dictsort)", f"{entries}.a"))

    def truth(self, depth: int) -> str:
        if not depth:
            return self._rng.choice(
                ("true", "false", "tools is none", "x is defined", "add_generation_prompt")
            )
        one, two = self.text(depth - 1), self.text(depth - 1)
        return self._rng.choice(
            (
                f"({one} == {two})",
                f"({one} in {two})",
                f"({one} not in {self.list(depth - 1)})",
                f"({self.number(depth - 1)} < {self.number(depth - 1)})",
                f"(not {self.truth(depth - 1)})",
                f"({self.truth(depth - 1)} and {self.truth(depth - 1)})",
                f"({one}).startswith({two})",
                f"({one} is string)",
                f"({self.number(depth - 1)} is odd)",
            )
        )


def by_jinja(source: str, variables: Mapping[str, Any]) -> str | None:
    """What Jinja's own sandbox makes of it, set up as chat templates expect; None where it fails."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    try:
        return environment.from_string(source).render(**variables)
    except (TemplateRuntimeError, TypeError, ValueError, ZeroDivisionError):
        return None


def _to_json(value: Any, indent: int | None = None, sort_keys: bool = False) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent, sort_keys=sort_keys)

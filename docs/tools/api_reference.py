"""The page about Python, from signatures and docstrings. Made anew for every build of the site."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

import guessahead

# What else a user of the library meets, by module.
_MODULES = {
    "guessahead.report": ("read_trace", "parse_trace", "trace_document", "render"),
    "guessahead.measure.formulas": (
        "Costs",
        "VerifyCurve",
        "forecast",
        "best_gamma",
        "break_even",
        "grid",
    ),
    "guessahead.report.measured": ("from_trace", "Measured"),
    "guessahead.measure.texts": ("measure_text",),
    "guessahead.measure.text_result": ("TextAcceptance", "Expectation", "expect", "pooled"),
    "guessahead.controller.pass_curve": ("measure_passes", "PassCurve"),
    "guessahead.controller.saved": ("Tuned", "load", "save", "forget"),
    "guessahead.types": ("Ask", "StopRule", "HiddenStates"),
    "guessahead.drafters.base": ("DrafterResources", "NoOptions"),
    "guessahead.protocols": (
        "Engine",
        "EngineInfo",
        "SequenceState",
        "Rows",
        "PassOutput",
        "DraftHead",
        "HeadSequence",
        "Runner",
        "RunnerInfo",
        "DrafterSettings",
        "Policy",
    ),
}
_HEAD = """# Python

The names of `guessahead`, and those of its modules that are meant for use from outside. (Made from the
docstrings.)
"""


def page() -> str:
    """The whole page, Markdown."""
    parts = [_HEAD, "## guessahead\n"]
    for name in guessahead.__all__:
        if name != "__version__":
            parts += _entry(f"guessahead.{name}", getattr(guessahead, name))
    for module_name, names in _MODULES.items():
        module = importlib.import_module(module_name)
        parts.append(f"## {module_name}\n\n{_prose(inspect.getdoc(module) or '')}\n")
        for name in names:
            parts += _entry(f"{module_name}.{name}", getattr(module, name))
    return "\n".join(parts)


def _entry(path: str, thing: Any) -> Iterator[str]:
    kind = "class" if inspect.isclass(thing) else "def"
    name = path.rpartition(".")[2]
    yield f"### {name} {{#{path}}}\n"
    yield f"```text\n{kind} {path}{_signature(thing)}\n```\n"
    yield f"{_prose(inspect.getdoc(thing) or '')}\n"
    if inspect.isclass(thing) and not issubclass(thing, Exception):
        for member_name, member in _members(thing):
            yield f"**{member_name}**{_shown(member)}\n\n{_prose(inspect.getdoc(member) or '')}\n"


def _members(kind: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties that the class itself defines and documents."""
    for name, member in vars(kind).items():
        plain = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        is_callable = inspect.isfunction(plain)
        if not name.startswith("_") and (is_callable or isinstance(plain, property)) and plain.__doc__:
            yield name, plain


def _shown(member: Any) -> str:
    return "" if isinstance(member, property) else f" `{_signature(member)}`"


def _signature(thing: Any) -> str:
    """As in a call; one argument per line where it would be long. Nothing for exceptions."""
    if inspect.isclass(thing) and (issubclass(thing, Exception) or getattr(thing, "_is_protocol", False)):
        return ""
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return ""
    parameters = [each for each in signature.parameters.values() if each.name != "self"]
    texts = [_without_factory(str(each)) for each in parameters]
    keyword_only = [index for index, each in enumerate(parameters) if each.kind is each.KEYWORD_ONLY]
    if keyword_only and not any(each.kind is each.VAR_POSITIONAL for each in parameters):
        texts.insert(keyword_only[0], "*")
    returns = signature.return_annotation
    arrow = "" if returns is inspect.Signature.empty or inspect.isclass(thing) else f" -> {_name(returns)}"
    line = f"({', '.join(texts)}){arrow}"
    if len(line) <= 80 or (inspect.isfunction(thing) and "." in thing.__qualname__):
        return line
    body = "".join(f"    {text},\n" for text in texts)
    return f"(\n{body}){arrow}"


def _without_factory(text: str) -> str:
    return re.sub(r"<factory>|<dataclasses\._HAS_DEFAULT_FACTORY_CLASS[^>]*>", "...", text).replace("'", "")


def _name(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))


def _prose(docstring: str) -> str:
    """Docstring to Markdown: "name: meaning" lines become a list, indented drawings stay as they are."""
    blocks = [_block(block) for block in re.split(r"\n\s*\n", docstring.strip())]
    return "\n\n".join(blocks)


_NAME = r"[A-Za-z_][\w.\[\]]*"
_FIELD = re.compile(rf"^({_NAME}(?:, {_NAME})*|{_NAME} \.\.\. {_NAME}): (.*)$")


def _block(block: str) -> str:
    lines = block.split("\n")
    if all(line.startswith("    ") for line in lines):
        return f"```text\n{inspect.cleandoc(block)}\n```"
    if not any(_FIELD.match(line) for line in lines) or not _is_field_list(lines):
        return _escaped(" ".join(line.strip() for line in lines))
    items: list[str] = []
    for line in lines:
        field = _FIELD.match(line)
        if field:
            items.append(f"- `{field[1]}`: {_escaped(field[2])}")
        else:
            items[-1] += f" {_escaped(line.strip())}"
    return "\n".join(items)


def _is_field_list(lines: list[str]) -> bool:
    """Fields from the first line on; what is not one continues one."""
    return bool(_FIELD.match(lines[0]))


def _escaped(text: str) -> str:
    """Nothing in prose is markup, except what stands in backticks."""
    parts = re.split(r"(`[^`]+`)", text)
    return "".join(part if part.startswith("`") else _plain(part) for part in parts)


def _plain(text: str) -> str:
    return re.sub(r"([*_\[])", r"\\\1", text).replace("<", "&lt;")

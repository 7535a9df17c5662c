"""A Jinja environment for chat templates from model files, which are not trusted.

What a template can reach is limited by Jinja's immutable sandbox, set up as transformers does for chat
templates (trim_blocks, lstrip_blocks, loop controls, tojson, raise_exception, strftime_now). How much it can
do is limited here: every loop turn, call and filter spends from a budget of steps, characters and seconds
before it works, so a template can neither hang nor fill the memory, in loops without output either. It takes
neither a thread (which cannot be stopped) nor a process (some 100 ms a prompt). Filters and string methods
that make much of little (format, center, ...) do not exist here; chat templates have no use for them.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, NoReturn

import jinja2
from jinja2 import nodes, pass_context
from jinja2.ext import Extension, loopcontrols
from jinja2.filters import FILTERS
from jinja2.parser import Parser
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from guessahead.text.safe_template.budget import (
    Budget,
    LimitError,
    built,
    charge,
    charge_deep,
    current,
    turns,
)

_CHEAP = (  # filters whose cost does not grow with what the items hold
    "count d default first items last length list map reject rejectattr reverse select selectattr"
)
_OTHERS = (
    "abs attr capitalize dictsort e escape float groupby int lower max min round safe sort string sum title "
    "trim truncate unique upper wordcount"
)
_METHODS = (
    "capitalize casefold count endswith find index isalnum isalpha isascii isdecimal isdigit "
    "islower isnumeric isspace istitle isupper join lower lstrip partition removeprefix removesuffix replace "
    "rfind rindex rpartition rsplit rstrip split splitlines startswith strip swapcase title upper"
)
_CHEAP_FILTERS: Final = frozenset(_CHEAP.split())
_STRING_METHODS: Final = frozenset(_METHODS.split())

# Names that no template can write, because they are no identifiers.
_CHARGE, _CHARGE_DEEP = "guessahead charge", "guessahead charge deep"
_TURNS, _BUILT, _SMALL = "guessahead turns", "guessahead built", "guessahead small"
_MAX_ARGUMENT_ITEMS: Final = 1000  # a filter may compare its argument with every item of a list


class RefusedError(Exception):
    """The template called raise_exception: it does not accept these messages."""


def render_limited(template: jinja2.Template, variables: Mapping[str, Any], budget: Budget) -> str:
    """Render within `budget`. Errors: LimitError, RefusedError, and what the template's faults raise."""
    token = current.set(budget)
    try:
        pieces: list[str] = []
        for piece in template.generate(**variables):
            budget.spend(len(piece))
            pieces.append(piece)
        return "".join(pieces)
    finally:
        current.reset(token)


class _Meter(NodeTransformer):
    """Puts the payments into a parsed template."""

    def visit_For(self, node: nodes.For) -> nodes.For:
        self.generic_visit(node)
        num_chars = sum(len(data.data) for data in node.find_all(nodes.TemplateData))
        node.iter = _filtered(node.iter, _TURNS, nodes.Const(num_chars))
        return node

    def visit_Filter(self, node: nodes.Filter) -> nodes.Filter:
        self.generic_visit(node)
        if node.node is not None:
            node.node = _filtered(node.node, _CHARGE if node.name in _CHEAP_FILTERS else _CHARGE_DEEP)
        node.args = [_filtered(argument, _SMALL) for argument in node.args]
        for keyword in node.kwargs:
            keyword.value = _filtered(keyword.value, _SMALL)
        return _filtered(_filtered(node, _BUILT), _CHARGE)

    def visit_List(self, node: nodes.Expr) -> nodes.Filter:
        self.generic_visit(node)
        return _filtered(node, _BUILT)

    visit_Dict = visit_List

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Expr:
        self.generic_visit(node)
        return _filtered(node, _BUILT) if node.ctx == "load" else node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Concat:
        self.generic_visit(node)
        node.nodes = [_filtered(part, _CHARGE_DEEP) for part in node.nodes]
        return node

    def visit_Compare(self, node: nodes.Compare) -> nodes.Compare:
        self.generic_visit(node)
        node.expr = _filtered(node.expr, _CHARGE_DEEP)
        for operand in node.ops:
            operand.expr = _filtered(operand.expr, _CHARGE_DEEP)
        return node


def _filtered(node: Any, name: str, *args: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(node, name, list(args), [], None, None, lineno=node.lineno)


class _Generation(Extension):
    """transformers' {% generation %} mark around an answer; for inference it changes nothing."""

    tags: set[str] = {"generation"}  # noqa: RUF012  (Extension declares it so)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class ChatEnvironment(ImmutableSandboxedEnvironment):
    """The environment; `compile_template` is the only way in that meters."""

    intercepted_binops = frozenset(("+", "*", "**", "%"))

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[loopcontrols, _Generation],
            optimized=False,  # would run filters while compiling, where no budget is set
            finalize=_finalize,
        )
        self.filters = {name: FILTERS[name] for name in f"{_CHEAP} {_OTHERS}".split()}
        self.filters |= {"tojson": _tojson, "join": _join, "replace": _replace, "indent": _indent}
        self.filters |= {_CHARGE: charge, _CHARGE_DEEP: charge_deep, _TURNS: turns}
        self.filters |= {_BUILT: built, _SMALL: partial(built, limit=_MAX_ARGUMENT_ITEMS)}
        del self.globals["lipsum"]
        self.globals |= {"raise_exception": _raise_exception, "strftime_now": _strftime_now}
        self._num_literal_chars = 0

    def compile_template(self, source: str) -> jinja2.Template:
        """Errors: jinja2.TemplateSyntaxError; RecursionError for absurd nesting."""
        tree = self.parse(source)
        self._num_literal_chars = sum(len(data.data) for data in tree.find_all(nodes.TemplateData))
        metered = _Meter().visit(tree)
        return jinja2.Template.from_code(self, self.compile(metered), self.make_globals(None))

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        budget = current.get()
        budget.spend(__self._num_literal_chars)  # what a macro may write
        if isinstance(__obj, LoopContext) and args:  # {% for ... recursive %}
            args = (turns(args[0]), *args[1:])
        receiver = getattr(__obj, "__self__", None)
        if isinstance(receiver, str):
            args = _metered_method(budget, receiver, __obj.__name__, args)
        return built(charge(super().call(__context, __obj, *args, **kwargs)))

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        if isinstance(obj, str) and attr not in _STRING_METHODS:
            return False
        return super().is_safe_attribute(obj, attr, value)

    def wrap_str_format(self, value: Any) -> None:
        """No sandboxed str.format either: it pads to any width."""

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        budget = current.get()
        numbers = isinstance(left, int | float) and isinstance(right, int | float)
        if operator == "**" or (operator == "%" and not numbers):
            raise LimitError(f"the operator {operator} is not available")
        if operator == "*":
            _check_product(budget, left, right)
        elif not numbers:
            budget.spend(sum(len(side) for side in (left, right) if hasattr(side, "__len__")))
        return built(super().call_binop(context, operator, left, right))


@pass_context  # which also keeps Jinja from running it while compiling
def _finalize(context: Context, value: Any) -> Any:
    return charge_deep(value)


def _metered_method(budget: Budget, receiver: str, name: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Pay for a method of a string before it runs; its arguments."""
    budget.spend(len(receiver))
    if name == "join" and args:
        args = (list(turns(args[0])), *args[1:])
        _spend_join(budget, args[0], receiver)
    elif name == "replace" and len(args) >= 2 and isinstance(args[0], str):
        budget.spend(receiver.count(args[0]) * len(str(args[1])))
    elif name == "replace":
        raise LimitError("replace() without two strings")
    return args


def _spend_join(budget: Budget, items: list[Any], separator: str) -> None:
    budget.spend(len(items) * len(separator))
    budget.spend_deep(items)


def _check_product(budget: Budget, left: Any, right: Any) -> None:
    """Pay for `left * right`: repetition of a string or list, or a product of numbers that stay small."""
    for side, count in ((left, right), (right, left)):
        if hasattr(side, "__len__") and isinstance(count, int):
            budget.spend(len(side) * max(count, 0))
            return
    if any(isinstance(side, int) and side.bit_length() > 64 for side in (left, right)):
        raise LimitError("a number is too large")


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as transformers writes it into prompts: not escaped for HTML."""
    if indent is not None and not 0 <= indent <= 16:
        raise LimitError("tojson with an indent over 16")
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _join(value: Iterable[Any], d: str = "", attribute: str | int | None = None) -> str:
    items = list(value)
    if attribute is not None:
        items = [
            item[attribute] if isinstance(item, Mapping) else getattr(item, str(attribute)) for item in items
        ]
    _spend_join(current.get(), items, d)
    return str(d).join(map(str, items))


def _replace(value: Any, old: str, new: str, count: int = -1) -> str:
    text = str(value)
    current.get().spend(text.count(str(old)) * len(str(new)))
    return text.replace(str(old), str(new), -1 if count is None else count)


def _indent(value: Any, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    text = str(value)
    num_columns = len(width) if isinstance(width, str) else width
    current.get().spend(num_columns * (text.count("\n") + 1))
    indented: Callable[..., str] = FILTERS["indent"]
    return indented(text, width, first, blank)


def _raise_exception(message: Any) -> NoReturn:
    raise RefusedError(str(message))


def _strftime_now(form: str) -> str:
    """The local time. Errors: LimitError for a field width, which could ask for gigabytes."""
    if len(form) > 200 or re.search(r"%[^a-zA-Z%]*\d", form):
        raise LimitError("strftime_now with field widths")
    return datetime.datetime.now().strftime(form)

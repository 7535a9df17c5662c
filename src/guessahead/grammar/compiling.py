"""From a Grammar to the constraint of one generation."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from guessahead.errors import GrammarError
from guessahead.grammar.constraint import GrammarConstraint
from guessahead.grammar.vocabulary import ModelTokens, described

if TYPE_CHECKING:
    from llguidance import LLMatcher
    from llguidance._lib import JsonCompileOptions

    from guessahead.text.tokenizer import Tokenizer
    from guessahead.types import Grammar, GrammarKind

# JSON is written as Python's json.dumps writes it: on one line, with a space after commas and colons. Models
# know this form well, and with white space fixed the grammar forces more tokens.
_JSON_LAYOUT: Final[JsonCompileOptions] = {
    "item_separator": ", ",
    "key_separator": ": ",
    "whitespace_flexible": False,
}
# Compiled grammars that are kept for a model. Much of the work is done when the first masks are computed, and
# copies share its results.
_MOST_KEPT: Final = 16
_NAMES: Final[dict[GrammarKind, str]] = {
    "json_schema": "the JSON schema",
    "regex": "the regular expression",
    "lark": "the grammar",
    "choice": "the choice",
}


def constraint_for(
    grammar: Grammar, tokenizer: Tokenizer, num_ids: int, num_prompt: int
) -> GrammarConstraint:
    """The constraint of one generation, which begins after `num_prompt` tokens.

    num_ids: of the model's vocabulary. Raises GrammarError, one line, for a grammar that cannot be used.
    """
    model = described(tokenizer, num_ids)
    return GrammarConstraint(_matcher(grammar, model), model, tokenizer, num_prompt)


def _matcher(grammar: Grammar, model: ModelTokens) -> LLMatcher:
    """A matcher at the beginning of the text, which is not to be changed."""
    from llguidance import LLMatcher

    kept = model.compiled
    if grammar in kept:
        kept.move_to_end(grammar)
        return kept[grammar]
    try:
        matcher = LLMatcher(model.tokens, _source(grammar), log_level=0)
        problem = matcher.get_error()
    except ValueError as error:
        problem = str(error)
    if problem:
        line = " ".join(problem.split())
        raise GrammarError(f"{_NAMES[grammar.kind]} cannot be used: {line[:300]}")
    kept[grammar] = matcher
    if len(kept) > _MOST_KEPT:
        kept.popitem(last=False)
    return matcher


def _source(grammar: Grammar) -> str:
    """The grammar in llguidance's own notation. Raises ValueError for one that is not well formed."""
    from llguidance import LLMatcher

    if grammar.kind == "json_schema":
        schema = "{}" if json.loads(grammar.source) is True else grammar.source
        return LLMatcher.grammar_from_json_schema(schema, overrides=_JSON_LAYOUT)
    if grammar.kind == "choice":
        texts = json.loads(grammar.source)
        return LLMatcher.grammar_from_regex("|".join(f"(?:{re.escape(text)})" for text in texts))
    if grammar.kind == "regex":
        return LLMatcher.grammar_from_regex(grammar.source)
    return LLMatcher.grammar_from_lark(grammar.source)

"""The tokens of a model as llguidance needs them: the bytes of each, and which of them end a text."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from guessahead.errors import GrammarError
from guessahead.text.retokenize import continuation

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

    from guessahead.text.tokenizer import Tokenizer
    from guessahead.types import Grammar

NEEDED: Final = "grammars and schemas need llguidance: pip install 'guessahead[structured]'"


class _Tokens:
    """What `llguidance.TokenizerWrapper` reads. Tokens without text are never allowed, but for EOS tokens."""

    bos_token_id = None
    special_token_ids: Sequence[int] = ()

    def __init__(self, tokenizer: Tokenizer, num_ids: int, eos_id: int) -> None:
        """num_ids: the model's; a token of the tokenizer behind them cannot be chosen."""
        known = min(num_ids, tokenizer.vocab_size)
        self.tokens = [tokenizer.token_bytes(token_id) for token_id in range(known)]
        self.tokens += [b""] * (num_ids - known)
        for token_id in tokenizer.eos_ids:  # a tokenizer may show their text, which a grammar must not match
            if token_id < num_ids:
                self.tokens[token_id] = b""
        self.eos_token_id = eos_id
        self._tokenizer = tokenizer

    def __call__(self, text: str) -> list[int]:
        """The tokens of a forced text, up to a byte that no token holds, if there is one."""
        data, length, kept = text.encode(), 0, list[int]()
        for token_id in continuation(self._tokenizer, text):
            piece = self.tokens[token_id] if token_id < len(self.tokens) else b""
            if not piece or not data.startswith(piece, length):
                break
            length += len(piece)
            kept.append(token_id)
        return kept


@dataclass(frozen=True, slots=True)
class ModelTokens:
    """The tokens of a model as llguidance has them, and the grammars that were compiled for them lately.

    missing: the bytes that no token holds.
    """

    tokens: LLTokenizer
    missing: bytes
    compiled: OrderedDict[Grammar, LLMatcher] = field(default_factory=OrderedDict)


_known: WeakKeyDictionary[Tokenizer, dict[int, ModelTokens]] = WeakKeyDictionary()


def described(tokenizer: Tokenizer, num_ids: int) -> ModelTokens:
    """The tokens of a model with `num_ids` ids, described once (some 0.5 s for 50,000).

    Raises GrammarError if llguidance is missing, or if no token ends a text.
    """
    try:
        from llguidance import LLTokenizer, TokenizerWrapper
    except ImportError:
        raise GrammarError(NEEDED) from None
    by_size = _known.setdefault(tokenizer, {})
    if num_ids not in by_size:
        eos_ids = [token_id for token_id in tokenizer.eos_ids if token_id < num_ids]
        if not eos_ids:
            raise GrammarError("the model has no token that ends a text, which grammars need")
        tokens = _Tokens(tokenizer, num_ids, eos_ids[0])
        missing = bytes({*range(256)}.difference(*tokens.tokens))
        made = LLTokenizer(TokenizerWrapper(tokens), n_vocab=num_ids, eos_token=eos_ids)
        by_size[num_ids] = ModelTokens(made, missing)
    return by_size[num_ids]

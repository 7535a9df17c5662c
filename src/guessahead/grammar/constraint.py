"""The state of a grammar in one generation: a matcher that is moved along the committed tokens and a draft.

llguidance's matcher takes tokens and gives them back. It stands after the committed tokens and then some
guesses; `_go` moves it to another path of guesses from where the two paths part. What it says about a path
depends on the tokens of the path alone, so masks are those of plain decoding.

A mask holds every token that may come. Only where the grammar leaves one text, and one way in which the
tokenizer cuts it, does the mask hold that token alone: a model that is made to write what it does not expect
prefers the shortest pieces, one letter after the other, and is lost among them afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from guessahead.core import tree
from guessahead.errors import GrammarError, StateError
from guessahead.text.retokenize import continuation
from guessahead.types import Draft

if TYPE_CHECKING:
    from llguidance import LLMatcher

    from guessahead.grammar.vocabulary import ModelTokens
    from guessahead.text.tokenizer import Tokenizer
    from guessahead.types import Int32, Mask

Path = tuple[int, ...]

# The probability of a forced token, and of one that a longer token may replace, which also holds some of what
# comes after the forced text.
CERTAIN: Final = 1.0
OPEN: Final = 0.6
# Characters at the end of the text so far that a message shows.
_SHOWN: Final = 40


class GrammarConstraint:
    """See `Constraint` in types/."""

    def __init__(self, start: LLMatcher, model: ModelTokens, tokenizer: Tokenizer, num_prompt: int) -> None:
        """start: a matcher at the beginning of the text; it is copied."""
        self._start, self._tokenizer, self._missing = start, tokenizer, model.missing
        self._eos_ids = frozenset(tokenizer.eos_ids)
        self._matcher = start.deep_copy()
        self._num_prompt = num_prompt
        self._committed: list[int] = []
        self._path: Path = ()  # where the matcher stands, after the committed tokens
        self._masks: dict[Path, Mask] = {}
        self._ended = False
        self._nothing: Mask = np.zeros((model.tokens.vocab_size + 31) // 32, np.uint32)
        self._nothing.flags.writeable = False

    @property
    def is_complete(self) -> bool:
        return self._ended or (self._go(()) and self._stopped())

    def mask(self, history: Int32, path: Sequence[int] | Int32 = ()) -> Mask:
        begun = self._num_prompt + len(self._committed)
        key: Path = (*history[begun:].tolist(), *(int(token) for token in path))
        found = self._masks.get(key)
        if found is None:
            found = self._masks[key] = self._computed(key)
        return found

    def admitted(self, draft: Draft) -> Draft:
        if len(draft) == 0:
            return draft
        kept: list[int] = []
        paths: dict[int, Path] = {tree.ROOT: ()}
        for node, (parent, token) in enumerate(
            zip(tree.parents_of(draft).tolist(), draft.token_ids.tolist(), strict=True)
        ):
            above = paths.get(parent)
            if above is not None and self._allows(above, token):
                paths[node] = (*above, token)
                kept.append(node)
        if len(kept) == len(draft):
            return draft
        if draft.distributions is not None:
            kept.append(len(kept))
        return _only(draft, kept)

    def forced(self, limit: int) -> list[tuple[int, float]]:
        if not self._go(()) or self._stopped():
            return []
        tokens = self._matcher.compute_ff_tokens()
        guesses = [(token_id, CERTAIN) for token_id in tokens]
        rest = self._matcher.compute_ff_bytes()[sum(map(len, map(self._tokenizer.token_bytes, tokens))) :]
        for token_id in continuation(self._tokenizer, rest.decode(errors="ignore")):
            piece = self._tokenizer.token_bytes(token_id)
            if len(guesses) >= limit or not piece or not rest.startswith(piece):
                break
            rest = rest[len(piece) :]
            guesses.append((token_id, OPEN))
        return guesses[:limit]

    def commit(self, token_id: int) -> None:
        if token_id in self._eos_ids and self._go(()) and self._matcher.is_accepting():
            self._ended = True
        elif self._ended or not self._go((token_id,)):
            raise StateError(f"token {token_id} is not allowed by the grammar")
        self._committed.append(token_id)
        self._path = ()
        self._masks.clear()

    def _go(self, path: Path) -> bool:
        """Move the matcher to a path of guesses; if the grammar does not allow it, as far as it does."""
        common = 0
        while common < min(len(path), len(self._path)) and path[common] == self._path[common]:
            common += 1
        if back := len(self._path) - common:
            self._matcher.rollback(back)
            self._path = self._path[:common]
        if len(path) > common:
            taken = self._matcher.try_consume_tokens([*path[common:]])
            self._path = path[: common + taken]
            if self._matcher.is_error():
                self._restart()
                return False
        return len(self._path) == len(path)

    def _stopped(self) -> bool:
        return self._matcher.is_stopped()

    def _allows(self, above: Path, token: int) -> bool:
        """Whether a guess is worth a row: it is allowed, and the text before it does not end."""
        if not self._go(above) or self._stopped():
            return False
        if token in self._eos_ids:
            return self._matcher.is_accepting()
        return self._go((*above, token))

    def _computed(self, path: Path) -> Mask:
        if self._ended or any(token in self._eos_ids for token in path) or not self._go(path):
            return self._nothing
        forced = self._matcher.compute_ff_bytes()
        if not self._missing or forced.translate(None, self._missing) == forced:
            # It has one word more than needed if the number of tokens is a multiple of 32.
            mask = np.frombuffer(self._matcher.compute_bitmask(), np.uint32)[: len(self._nothing)]
            if not self._matcher.is_error():
                return mask
        reason = self._matcher.stop_reason()
        self._restart()
        if path:
            return self._nothing
        raise GrammarError(self._dead_end(reason))

    def _restart(self) -> None:
        """A matcher that found no continuation cannot be used any more: make another one."""
        self._matcher, self._path = self._start.deep_copy(), ()
        self._matcher.try_consume_tokens(self._committed)

    def _dead_end(self, reason: str) -> str:
        data = b"".join(self._tokenizer.token_bytes(token) for token in self._committed)
        text = data.decode("utf-8", errors="replace")
        after = f"after {text[-_SHOWN:]!r}" if text else "at its beginning"
        if "TooComplex" in reason:
            return f"the grammar is too complex to be followed {after} ({reason})"
        return f"no token of the model can continue the text {after}, as the grammar demands"


def _only(draft: Draft, kept: list[int]) -> Draft:
    """The draft of these nodes, which hold every parent of theirs; of a chain: the first ones."""
    number = {tree.ROOT: tree.ROOT} | {node: i for i, node in enumerate(kept)}
    rows = np.array(kept, np.int32)
    parents = draft.parents
    if parents is not None:
        parents = np.array([number[parent] for parent in parents[rows].tolist()], np.int32)
    return Draft(
        token_ids=draft.token_ids[rows],
        parents=parents,
        probabilities=None if draft.probabilities is None else draft.probabilities[rows],
        origins=None if draft.origins is None else tuple(draft.origins[node] for node in kept),
        distributions=None if draft.distributions is None else draft.distributions[: len(kept)],
    )

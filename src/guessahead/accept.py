"""What the target makes of a draft. Pure functions.

The rule is equality. `choose` says which token the target wants after each row, greedy or sampled; a guess
is right where it is that token. So the tokens that come out are those that the target would have chosen one
by one, whatever was guessed.
"""

from __future__ import annotations

import numpy as np

from guessahead import tree
from guessahead.errors import StateError
from guessahead.types import Draft, Int32, Verdict


def accept(draft: Draft, chosen: Int32) -> Verdict:
    """Follow the target's choices through the draft until it chooses a token that nobody guessed.

    chosen: int32[n + 1]: the target's choice after the last committed token, then after each draft node;
        -1 where none was computed (only rows on the chosen path are needed).
    Raises ParameterError for a malformed draft, StateError where a choice that is needed is missing.
    """
    children = tree.children_of(draft)
    path: list[int] = []
    token_ids: list[int] = []
    node = tree.ROOT
    while True:
        token = int(chosen[node + 1])
        if token < 0:
            raise StateError(f"the target chose no token after draft node {node}")
        token_ids.append(token)
        child = children.get((node, token))
        if child is None:
            break
        path.append(child)
        node = child
    contradicted = any(parent == node for parent, _ in children)
    return Verdict(
        path=np.array(path, np.int32),
        token_ids=np.array(token_ids, np.int32),
        num_tested=len(path) + contradicted,
    )


def cut(verdict: Verdict, num_tokens: int) -> Verdict:
    """The verdict as if the block had ended with its first `num_tokens` tokens.

    The last token stays pending, as after every step, so the path is one shorter than the tokens; guesses
    behind the cut count as untested.
    """
    if num_tokens >= len(verdict.token_ids):
        return verdict
    return Verdict(
        path=verdict.path[: num_tokens - 1],
        token_ids=verdict.token_ids[:num_tokens],
        num_tested=num_tokens - 1,
    )

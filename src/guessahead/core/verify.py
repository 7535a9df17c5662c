"""Verification of a draft by equality, as pure functions.

`choose` gives the target's token after each row, greedy or sampled. A guess is right if it equals that token.
So the emitted tokens are those that the target would have chosen one by one, whatever was guessed.
"""

from __future__ import annotations

import numpy as np

from guessahead.core import tree
from guessahead.errors import GrammarError, NotFiniteError, StateError
from guessahead.types import EMPTY_IDS, NOT_ALLOWED, NOT_FINITE, Draft, Int32, Verdict


def accept(draft: Draft, chosen: Int32) -> Verdict:
    """The verdict on a draft: follow the target's choices until it chooses a token that was not guessed.

    chosen: int32[n + 1]: the target's choice after the last committed token, then after each draft node;
        -1 if it was not computed (only rows on the chosen path are needed).
    A guess after which there is no choice (NOT_FINITE, NOT_ALLOWED) is not followed: the next step begins
    there, as in plain decoding. Raises NotFiniteError or GrammarError if there is none after the last
    committed token; ParameterError for a malformed draft, StateError if a required choice is missing.
    """
    if chosen[0] == NOT_FINITE:
        raise NotFiniteError("the model computes numbers that are not finite")
    if chosen[0] == NOT_ALLOWED:
        raise GrammarError("every token that the grammar allows now is banned by logit_bias or min_tokens")
    if len(draft) == 0:  # a plain step
        if chosen[0] < 0:
            raise StateError("the target chose no token after the last committed one")
        return Verdict(EMPTY_IDS, chosen[:1], 0)
    parents = tree.checked_parents(draft)
    wanted = chosen.tolist()
    path: list[int] = []
    token_ids = [wanted[0]]
    node = tree.ROOT
    for child, (parent, token) in enumerate(zip(parents, draft.token_ids.tolist(), strict=True)):
        # Children come after their parents.
        if parent == node and token == token_ids[-1] and wanted[child + 1] not in (NOT_FINITE, NOT_ALLOWED):
            path.append(child)
            token_ids.append(wanted[child + 1])
            node = child
    if min(token_ids) < 0:
        raise StateError(f"the target chose no token after draft node {node}")
    return Verdict(
        path=np.array(path, np.int32),
        token_ids=np.array(token_ids, np.int32),
        num_tested=len(path) + (node in parents),
    )


def cut(verdict: Verdict, num_tokens: int) -> Verdict:
    """The verdict reduced to its first `num_tokens` tokens.

    The last token stays pending, as after every step, so the path is one shorter than the tokens; guesses
    after the cut count as untested.
    """
    if num_tokens >= len(verdict.token_ids):
        return verdict
    return Verdict(
        path=verdict.path[: num_tokens - 1],
        token_ids=verdict.token_ids[:num_tokens],
        num_tested=num_tokens - 1,
    )

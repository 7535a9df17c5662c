"""Log-probabilities of emitted tokens."""

from __future__ import annotations

import numpy as np

from guessahead.types import Float32, TokenLogprob


def token_logprob(logits: Float32, token_id: int, num_top: int) -> TokenLogprob:
    """The log-probability of `token_id` under softmax(logits), and the `num_top` most likely tokens.

    logits: float32[vocab], raw: before penalties, filters and temperature. Computed in float64 (natural
    log); equal alternatives are ordered by token id.
    """
    wide = logits.astype(np.float64)
    top = float(wide.max())
    log_total = top + float(np.log(np.exp(wide - top).sum()))
    best = np.argsort(-wide, kind="stable")[:num_top] if num_top else ()
    return TokenLogprob(
        token_id=token_id,
        logprob=float(wide[token_id]) - log_total,
        top=tuple((int(other), float(wide[other]) - log_total) for other in best),
    )

"""The JSON documents of the command line. Their keys are stable; `null` = not measured.

generate --json: model, text, token_ids, finish_reason, num_prompt_tokens, seed, logprobs, stats.
    logprobs: null, or one entry per token: token_id, token (its text), logprob (null: minus infinity), and
    top: the most likely tokens in the same form. stats: see guessahead.core.stats.Stats.
generate --compare --json: model, identical, num_tokens, num_identical, first_difference, num_rounds,
    plain_tokens_per_second, tokens_per_second, ratio, c, v, predicted_tau, predicted_ratio; and the first
    round's two answers, in the form above, as plain and speculative.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from guessahead.measure.bench.comparison import Comparison
    from guessahead.model import LanguageModel
    from guessahead.types import Generation


def generation_document(lm: LanguageModel, generation: Generation) -> dict[str, Any]:
    """The document of one generation."""

    def entry(token_id: int, logprob: float) -> dict[str, Any]:
        finite = logprob if math.isfinite(logprob) else None
        return {"token_id": token_id, "token": lm.tokenizer.decode([token_id]), "logprob": finite}

    logprobs = None
    if generation.logprobs is not None:
        logprobs = [
            entry(each.token_id, each.logprob) | {"top": [entry(*pair) for pair in each.top]}
            for each in generation.logprobs
        ]
    return {
        "model": lm.name,
        "text": generation.text,
        "token_ids": list(generation.token_ids),
        "finish_reason": generation.finish_reason,
        "num_prompt_tokens": generation.num_prompt_tokens,
        "seed": generation.seed,
        "logprobs": logprobs,
        "stats": generation.stats.to_dict(),
    }


def comparison_document(lm: LanguageModel, comparison: Comparison) -> dict[str, Any]:
    """The document of a comparison."""
    return {
        "model": lm.name,
        **comparison.to_dict(),
        "plain": generation_document(lm, comparison.plain[0]),
        "speculative": generation_document(lm, comparison.speculative[0]),
    }

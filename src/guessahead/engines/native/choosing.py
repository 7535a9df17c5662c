"""Conversion of a ChoiceContext to the arguments of the native `Chooser`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from guessahead.core.sampling import is_greedy, resolved_seed

if TYPE_CHECKING:
    from guessahead.types import ChoiceContext


def chooser_arguments(context: ChoiceContext) -> dict[str, Any]:
    """The keyword arguments of the native `Chooser`. (A greedy choice needs no seed and gets 0.)"""
    params = context.params
    return {
        "temperature": float(params.temperature),
        "top_k": int(params.top_k),
        "top_p": float(params.top_p),
        "min_p": float(params.min_p),
        "repetition_penalty": float(params.repetition_penalty),
        "frequency_penalty": float(params.frequency_penalty),
        "presence_penalty": float(params.presence_penalty),
        "logit_bias": [(int(token_id), float(bias)) for token_id, bias in params.logit_bias.items()],
        "eos_ids": [int(token_id) for token_id in context.eos_ids],
        "min_tokens": int(params.min_tokens),
        "seed": 0 if is_greedy(params) else resolved_seed(context),
        "stream": int(context.stream),
        "prompt_length": int(context.prompt_length),
    }

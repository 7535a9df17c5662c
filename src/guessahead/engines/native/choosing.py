"""Conversion of a ChoiceContext to what the native engine needs: arguments of its `Chooser`, masks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from guessahead.core.sampling import is_greedy, resolved_seed

if TYPE_CHECKING:
    from guessahead.types import ChoiceContext, Int32, Mask


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


def choice_masks(context: ChoiceContext, guesses: Int32, parents: Int32 | None) -> Mask | None:
    """The tokens allowed after the last committed row and after each guess: uint32[n + 1, words], or None.

    parents: of the guesses, as rows; the first guess is row 1, and 0 the last committed one. None = a chain.
    """
    constraint = context.constraint
    if constraint is None:
        return None
    paths: list[tuple[int, ...]] = [()]
    above = range(len(guesses)) if parents is None else parents.tolist()
    for parent, token in zip(above, guesses.tolist(), strict=True):
        paths.append((*paths[parent], token))
    return np.stack([constraint.mask(context.history, path) for path in paths])

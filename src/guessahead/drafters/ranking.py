"""The most likely tokens with their probabilities, from a row of logits, for drafters with a model.

Under sampling, draft and target add the same noise, so the probability of a guess follows from the lead of
the winner of logits + noise over the other tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from guessahead.core import sampling

if TYPE_CHECKING:
    from guessahead.types import ChoiceContext, Float32

CONSIDERED: Final = 64  # tokens that sampling is likely to choose; the noise of the others is not computed
FAR: Final = 16.0  # logits this far below the best are negligible: 150,000 of them are 2 %
LEAST_SIBLING: Final = 0.02  # a sibling less likely than this does not pay for its row
# The weight of the target's noise for a head, whose logits only resemble the target's. Fitted to the winners
# of 11,002 samples of SmolLM2 at temperatures 0.5, 0.8 and 1 (docs/log.md).
NOISE_TRUST: Final = 0.67


def guess_and_siblings(
    logits: Float32, context: ChoiceContext, guess: int, siblings: int
) -> list[tuple[int, float]]:
    """The guess of a draft model and the most likely other tokens, each with its probability.

    Greedy: softmax of the logits. Sampled: both models add the same noise, so the lead of the winner of
    logits / temperature + noise decides; the softmax of those values, which models a small random difference
    between the two models.
    """
    params = context.params
    near = np.flatnonzero(logits > logits.max() - FAR)
    if sampling.is_greedy(params):
        values = logits[near]
    else:
        if len(near) > CONSIDERED:
            near = near[np.argpartition(logits[near], -CONSIDERED)[-CONSIDERED:]]
        seed = sampling.resolved_seed(context)
        noise = sampling.gumbel_noise(seed, context.stream, len(context.history), near)
        values = (logits[near] / params.temperature + noise).astype(np.float32)
    weights = np.exp(values - values.max())
    probabilities = weights / weights.sum()
    ranked = [(guess, float(probabilities[near == guess].sum()))]
    if siblings:
        likely = np.flatnonzero(probabilities >= LEAST_SIBLING)
        pairs = zip(near[likely].tolist(), probabilities[likely].tolist(), strict=True)
        others = sorted((-probability, token) for token, probability in pairs if token != guess)
        ranked += [(token, -negative) for negative, token in others[:siblings]]
    return ranked


def likeliest_text(logits: Float32, guess: int, siblings: int) -> list[tuple[int, float]]:
    """The guess and the most likely other tokens, by the plain softmax without noise."""
    weights = np.exp(logits - logits.max())
    probabilities = weights / weights.sum()
    likely = np.flatnonzero(probabilities >= LEAST_SIBLING)
    others = sorted((-float(probabilities[token]), token) for token in likely.tolist() if token != guess)
    ranked = [(token, -negative) for negative, token in others[:siblings]]
    return [(guess, float(probabilities[guess])), *ranked]

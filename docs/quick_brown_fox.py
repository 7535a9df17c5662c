"""Prints the example of how-it-works.md: a real model, one wrong guess, every step.

    python docs/quick_brown_fox.py

tests/test_docs.py checks that the page shows what this prints.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import guessahead as ga

PROMPT = (
    "1. The quick brown fox jumps.\n"
    "2. The quick brown fox runs.\n"
    "3. The quick brown fox jumps.\n"
    "4. The quick brown fox runs.\n"
    "5."
)
NUM_STEPS = 3


def lines() -> Iterator[str]:
    """The first steps of the trace, with tokens as text."""
    lm = ga.load("smollm2-135m")
    generation = lm.generate(
        PROMPT,
        raw=True,
        max_tokens=16,
        drafter="prompt-lookup",
        drafter_options={"min_ngram": 1},
        gamma=4,
        trace=True,
    )
    assert generation.trace is not None

    def text(token_ids: Sequence[int]) -> str:
        return " ".join(f"{lm.tokenizer.decode([token_id])!r}" for token_id in token_ids) or "nothing"

    steps: Sequence[Mapping[str, Any]] = generation.trace["steps"]
    for number, step in enumerate(steps[:NUM_STEPS], 1):
        num_committed = step["num_committed_rows"]
        first = text(step["rows"][:num_committed]) if num_committed == 1 else f"{num_committed} prompt tokens"
        guesses = step["rows"][num_committed:]
        chosen = [token_id for token_id in step["chosen"] if token_id >= 0]
        yield f"step {number}, {step['kind']}"
        yield f"  draft   {text(step['draft']['token_ids'])}"
        yield f"  rows    {first}{' | ' + text(guesses) if guesses else ''}"
        yield f"  chosen  {text(chosen)}"
        yield f"  emitted {text(step['token_ids'])}, of which guessed {len(step['path'])}"


if __name__ == "__main__":
    sys.stdout.write("\n".join(lines()) + "\n")

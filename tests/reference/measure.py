"""What the reference tests measure: errors against float64, and divergences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Logits = npt.NDArray[np.floating[Any]]
ALLOWED_RATIO = 4.0


@dataclass(frozen=True)
class Errors:
    """Largest distances from the float64 logits, and the size of these."""

    ours: float
    theirs: float
    largest: float

    def __str__(self) -> str:
        ratio = self.ours / self.theirs
        return (
            f"max |ours - float64| = {self.ours:.2e}, max |transformers float32 - float64| = "
            f"{self.theirs:.2e}, ratio {ratio:.2f} (logits up to {self.largest:.1f})"
        )

    def check(self) -> None:
        """The criterion; and that the reference is one: float32 is near it, so its own bugs would show."""
        assert 0 < self.theirs < 2e-4 * self.largest, self
        assert self.ours <= ALLOWED_RATIO * self.theirs, self


def errors(ours: Logits, float32: Logits, float64: Logits) -> Errors:
    """All [positions, vocab]."""
    assert ours.shape == float32.shape == float64.shape
    assert ours.dtype == float32.dtype == np.float32
    assert float64.dtype == np.float64
    return Errors(
        max(float(np.abs(a - b).max()) for a, b in zip(ours, float64, strict=True)),
        max(float(np.abs(a - b).max()) for a, b in zip(float32, float64, strict=True)),
        max(float(np.abs(row).max()) for row in float64),
    )


def divergence(true: Logits, other: Logits) -> float:
    """Mean over positions of KL(true || other), in nats; both [positions, vocab] logits."""
    assert true.shape == other.shape
    total = 0.0
    for row, other_row in zip(true, other, strict=True):
        p, q = _log_softmax(row), _log_softmax(other_row)
        total += float(np.exp(p) @ (p - q))
    return total / len(true)


def _log_softmax(row: Logits) -> npt.NDArray[np.float64]:
    shifted = row.astype(np.float64) - float(row.max())
    result: npt.NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum())
    return result

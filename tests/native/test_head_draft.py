"""A whole draft in one native call is that of the same passes made one by one in Python."""

from __future__ import annotations

import numpy as np
import pytest

from guessahead.engines.native.head import NativeHead
from guessahead.types import Ask, ChoiceContext, Draft, Float32, Int32, SamplingParams, StopRule, TreeShape
from tests.native.test_head import NUM_ROWS, head, kind, model, rows
from tests.support.head_draft import draft_of_head

__all__ = ["head", "kind", "model", "rows"]  # fixtures

GREEDY = SamplingParams()
SAMPLED = SamplingParams(temperature=0.8, seed=5)
FILTERED = SamplingParams(temperature=1.2, top_k=20, top_p=0.9, min_p=0.01, seed=9)
TABLE = tuple(np.linspace(0.05, 0.9, 65).tolist())
RULES = [
    None,
    StopRule((0.0, 0.0)),
    StopRule((0.0, 0.05, 0.02, 0.01)),
    StopRule((0.0,) * 8, (TABLE, TABLE[::-1])),
]


def same(a: Draft, b: Draft) -> bool:
    parents = [list(range(-1, len(d) - 1)) if d.parents is None else d.parents.tolist() for d in (a, b)]
    assert a.probabilities is not None
    assert b.probabilities is not None
    probabilities = a.probabilities.tobytes() == b.probabilities.tobytes()
    return np.array_equal(a.token_ids, b.token_ids) and parents[0] == parents[1] and probabilities


@pytest.mark.parametrize("num_rows", [1, 9, NUM_ROWS])
@pytest.mark.parametrize("params", [GREEDY, SAMPLED, FILTERED], ids=["greedy", "sampled", "filtered"])
def test_it_is_that_of_single_passes(
    head: NativeHead, rows: tuple[Int32, Float32], params: SamplingParams, num_rows: int
) -> None:
    next_ids, fused = rows[0][:num_rows], rows[1][:num_rows]
    history = np.append(np.int32(1), next_ids)
    shapes = set()
    for rule in RULES:
        for branches, width in ((1, 1), (2, 1), (3, 2), (2, 4)):
            for budget, levels in ((1, 1), (4, 4), (12, 5)):
                shape = TreeShape(levels, branches, width, 0.02, 0.67)
                free = draft_of_head(
                    head.new_sequence(),
                    head.draft_ids,
                    next_ids,
                    fused,
                    Ask(_context(history, params), 12),
                    shape,
                )
                for ends in ((), (int(free.token_ids[0]),)):
                    ask = Ask(_context(history, params, ends), budget, rule)
                    ours, theirs = head.new_sequence(), head.new_sequence()
                    found = ours.draft(next_ids, fused, ask, shape)
                    assert same(found, draft_of_head(theirs, head.draft_ids, next_ids, fused, ask, shape))
                    assert ours.length == num_rows, "the guesses are not kept"
                    assert 0 < len(found) <= budget
                    shapes.add(None if found.parents is None else tuple(found.parents.tolist()))
    assert len(shapes) > 5


def _context(history: Int32, params: SamplingParams, eos_ids: tuple[int, ...] = ()) -> ChoiceContext:
    return ChoiceContext(params, history, 1, eos_ids)


def test_what_is_read_next_does_not_depend_on_the_draft(
    head: NativeHead, rows: tuple[Int32, Float32]
) -> None:
    tokens, fused = rows
    drafted, plain = head.new_sequence(), head.new_sequence()
    for width in (1, 3):
        ask = Ask(_context(np.append(np.int32(1), tokens[:40]), GREEDY), 8)
        drafted.rollback(0)
        plain.rollback(0)
        drafted.draft(tokens[:40], fused[:40], ask, TreeShape(4, 2, width, 0.02, 0.67))
        plain.read(tokens[:40], fused[:40])
        after = [each.read(tokens[40:70], fused[40:70]) for each in (drafted, plain)]
        assert all(a.tobytes() == b.tobytes() for a, b in zip(*after, strict=True))

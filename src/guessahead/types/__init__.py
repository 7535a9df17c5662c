"""Values passed between the layers: requests, drafts, verdicts and results.

All of them are frozen. Token ids are int32 arrays; a tree is a list of parents, and a chain is a tree that
needs no list. docs/how-it-works.md describes one step in full.
"""

from guessahead.types.requests import (
    EMPTY_IDS,
    NOT_ALLOWED,
    NOT_FINITE,
    Acceptance,
    Chunk,
    Float32,
    Float64,
    Gamma,
    Generation,
    Grammar,
    GrammarKind,
    Int32,
    Mask,
    Request,
    SamplingParams,
    TokenLogprob,
)
from guessahead.types.steps import (
    NO_DRAFT,
    Ask,
    ChoiceContext,
    Constraint,
    Draft,
    Draws,
    HiddenStates,
    StopRule,
    TreeShape,
    Verdict,
)

__all__ = [
    "EMPTY_IDS",
    "NOT_ALLOWED",
    "NOT_FINITE",
    "NO_DRAFT",
    "Acceptance",
    "Ask",
    "ChoiceContext",
    "Chunk",
    "Constraint",
    "Draft",
    "Draws",
    "Float32",
    "Float64",
    "Gamma",
    "Generation",
    "Grammar",
    "GrammarKind",
    "HiddenStates",
    "Int32",
    "Mask",
    "Request",
    "SamplingParams",
    "StopRule",
    "TokenLogprob",
    "TreeShape",
    "Verdict",
]

"""Speculative decoding with an unchanged answer: guess several tokens ahead, check them in one pass.

    import guessahead as ga

    lm = ga.load("smollm2-135m")
    print(lm.generate("Why is the sky blue?", max_tokens=64).text)

Importing this package imports no other module; each name is loaded on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from guessahead.core.stats import Stats
    from guessahead.drafters.base import Drafter
    from guessahead.errors import (
        GuessaheadError,
        InputError,
        ModelError,
        ParameterError,
        PromptError,
        StateError,
        TokenizerError,
    )
    from guessahead.measure.formulas import predict_speedup, predict_tau
    from guessahead.model import LanguageModel, Session, Stream, load
    from guessahead.options import GenerateOptions
    from guessahead.runners.solo import SpeculativeDecoder
    from guessahead.types import (
        ChoiceContext,
        Chunk,
        Draft,
        Generation,
        Request,
        SamplingParams,
        TokenLogprob,
        Verdict,
    )

_HOMES = {
    "ChoiceContext": "types",
    "Chunk": "types",
    "Draft": "types",
    "Drafter": "drafters.base",
    "GenerateOptions": "options",
    "Generation": "types",
    "GuessaheadError": "errors",
    "InputError": "errors",
    "LanguageModel": "model",
    "ModelError": "errors",
    "ParameterError": "errors",
    "PromptError": "errors",
    "Request": "types",
    "SamplingParams": "types",
    "Session": "model",
    "SpeculativeDecoder": "runners.solo",
    "StateError": "errors",
    "Stats": "core.stats",
    "Stream": "model",
    "TokenLogprob": "types",
    "TokenizerError": "errors",
    "Verdict": "types",
    "load": "model",
    "predict_speedup": "measure.formulas",
    "predict_tau": "measure.formulas",
}

__all__ = [
    "ChoiceContext",
    "Chunk",
    "Draft",
    "Drafter",
    "GenerateOptions",
    "Generation",
    "GuessaheadError",
    "InputError",
    "LanguageModel",
    "ModelError",
    "ParameterError",
    "PromptError",
    "Request",
    "SamplingParams",
    "Session",
    "SpeculativeDecoder",
    "StateError",
    "Stats",
    "Stream",
    "TokenLogprob",
    "TokenizerError",
    "Verdict",
    "__version__",
    "load",
    "predict_speedup",
    "predict_tau",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("guessahead")
    if name not in _HOMES:
        raise AttributeError(f"module 'guessahead' has no attribute {name!r}")
    found = getattr(importlib.import_module(f"guessahead.{_HOMES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__

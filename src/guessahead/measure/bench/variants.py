"""What `guessahead bench` compares: the drafters that can run, and the arguments that select them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from guessahead.drafters import registry
from guessahead.drafters.base import check_sampling, is_sampled
from guessahead.runners.solo import solo

if TYPE_CHECKING:
    from guessahead.drafters.base import Drafter, DrafterResources
    from guessahead.model import LanguageModel

PLAIN: Final = "none"


def runnable_drafters(lm: LanguageModel, draft_model: LanguageModel | None) -> list[str]:
    """All registered drafters that can run, without plain decoding."""
    kinds = {name: registry.find(name) for name in registry.names() if name != PLAIN}
    head = solo(lm.runner).resources().head
    has_head = head is not None and head("") is not None
    return [
        name
        for name, kind in kinds.items()
        if (draft_model is not None or not kind.needs_draft_engine) and (has_head or not kind.needs_head)
    ]


def arguments_of(drafter: str, lm: LanguageModel, draft_model: LanguageModel | None) -> dict[str, Any]:
    """Arguments of `LanguageModel.generate` for a drafter. Raises ParameterError if it cannot run."""
    _make(drafter, lm, draft_model)
    given = _given(drafter, draft_model)
    return {"drafter": drafter} | ({"draft_model": given} if given is not None else {})


def sampled_drafters(
    names: Iterable[str], lm: LanguageModel, draft_model: LanguageModel | None
) -> frozenset[str]:
    """The drafters whose guesses are sampled with acceptance "rejection", so that their texts differ.

    Raises ParameterError for one that does not support it.
    """
    made = [(name, _make(name, lm, draft_model)) for name in names]
    for _, drafter in made:
        check_sampling(drafter)
    return frozenset(name for name, drafter in made if is_sampled(drafter))


def _make(name: str, lm: LanguageModel, draft_model: LanguageModel | None) -> Drafter:
    return registry.make(name, None, _resources(name, lm, draft_model))


def _resources(name: str, lm: LanguageModel, draft_model: LanguageModel | None) -> DrafterResources:
    given = _given(name, draft_model)
    return solo(lm.runner).resources(None if given is None else given.runner)


def _given(drafter: str, draft_model: LanguageModel | None) -> LanguageModel | None:
    return draft_model if registry.find(drafter).takes_draft_engine else None

"""For every option of the drafters that look up text or run a model: a check that it does what it says."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from guessahead.drafters import registry
from guessahead.drafters.base import Drafter, DrafterResources
from guessahead.protocols import Rows
from guessahead.types import (
    EMPTY_IDS,
    Ask,
    ChoiceContext,
    Draft,
    HiddenStates,
    SamplingParams,
    StopRule,
    Verdict,
)
from tests.support.fake_head import FakeHead
from tests.support.fake_text import letters
from tests.support.fakes import TinyEngine

VOCAB = 26


def _draft(
    name: str, history: list[int], *, budget: int = 8, setup: DrafterResources | None = None, **options: Any
) -> Draft:
    drafter = registry.make(name, options, setup or _setup())
    choice = ChoiceContext(SamplingParams(seed=0), np.array(history, np.int32), 1)
    drafter.begin(replace(choice, history=choice.history[:1]))
    draft = drafter.propose(Ask(choice, budget))
    drafter.end()
    return draft


def _setup(engine: Any = None, draft_engine: Any = None) -> DrafterResources:
    engine = engine or TinyEngine(VOCAB)
    return DrafterResources(
        engine,
        draft_engine,
        letters(VOCAB),  # type: ignore[arg-type]
        lambda _: TinyEngine(VOCAB, seed=1),  # type: ignore[arg-type, return-value]
        lambda _: FakeHead(engine),  # type: ignore[arg-type, return-value]
    )


def _show(drafter: Drafter, engine: TinyEngine, history: list[int]) -> None:
    """The hidden states of all but the last token, if the drafter reads them."""
    if drafter.needs_hidden:
        cached = np.array(history[:-1], np.int32)
        [output] = engine.forward([Rows(engine.new_sequence(), cached, want_hidden=drafter.needs_hidden)])
        drafter.observe(Verdict(EMPTY_IDS, EMPTY_IDS, 0), HiddenStates(0, output.hidden or {}))


def min_match() -> None:
    history = [4, 2, 3, 9, 2, 3]
    assert _draft("suffix", history, min_match=2).token_ids.tolist()[:1] == [9]
    assert len(_draft("suffix", history, min_match=3)) == 0


def branches() -> None:
    history = [1, 2, 5, 1, 2, 6, 1, 2, 7, 1, 2]
    for count in (1, 2, 3):
        draft = _draft("suffix", history, branches=count, budget=16)
        parents = range(-1, len(draft) - 1) if draft.parents is None else draft.parents.tolist()
        children = [sum(parent == node for parent in parents) for node in range(-1, len(draft))]
        assert max(children) == count


def remember(name: str) -> None:
    """The second text begins as the first one did."""
    story = [1, 2, 3, 4, 5, 6, 7, 8]
    for kept, found in ((0, []), (100, [5, 6, 7, 8])):
        setup = _setup()
        _draft(name, story, setup=setup, remember=kept)
        again = _draft(name, [9, 2, 3, 4], setup=setup, remember=kept)
        assert again.token_ids.tolist() == found


def corpus(name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "a.txt").write_text("ABCDEFGH", encoding="utf-8")
        Path(folder, "image.bin").write_bytes(b"\xff\xfe\x00")
        for place in (folder, f"{folder}/a.txt"):
            draft = _draft(name, [20, 1, 2, 3], corpus=place)
            assert draft.token_ids.tolist() == [4, 5, 6, 7]
    assert len(_draft(name, [20, 1, 2, 3])) == 0


def siblings(name: str) -> None:
    """With room behind the chain, each guess has so many others beside it."""

    for count in (0, 1, 3):
        engine = TinyEngine(VOCAB)
        needs = registry.find(name).needs_draft_engine
        setup = _setup(engine, TinyEngine(VOCAB, seed=1) if needs else None)
        drafter = registry.make(name, {"siblings": count}, setup)
        choice = ChoiceContext(SamplingParams(temperature=2.0, seed=5), np.array([1, 2, 3], np.int32), 1)
        drafter.begin(choice)
        draft = drafter.propose(Ask(choice, 8, StopRule((0.0,))))
        drafter.end()
        assert len(draft) <= 1 + count
        assert (len(draft) > 1) == (count > 0)


def min_probability(name: str) -> None:
    engine = TinyEngine(VOCAB)
    needs = registry.find(name).needs_draft_engine
    lengths = []
    for least in (0.0, 0.999):
        setup = _setup(engine, TinyEngine(VOCAB, seed=1) if needs else None)
        lengths.append(len(_draft(name, [1, 2, 3], setup=setup, min_probability=least, siblings=0)))
    assert lengths[0] == 8
    assert lengths[1] < 8


def _tree(engine: TinyEngine, **options: int) -> Draft:
    """The guesses of a head that knows the target well enough to be unsure, at a large budget."""
    drafter = registry.make("head", options, _setup(engine))
    choice = ChoiceContext(SamplingParams(temperature=2.0, seed=5), np.array([1, 2, 3], np.int32), 1)
    drafter.begin(choice)
    _show(drafter, engine, [1, 2, 3])
    return drafter.propose(Ask(choice, 48))


def head_branches() -> None:
    """So many guesses at most behind each guess."""
    for count in (1, 2, 4):
        draft = _tree(TinyEngine(VOCAB), branches=count, width=2)
        parents = range(-1, len(draft) - 1) if draft.parents is None else draft.parents.tolist()
        assert max(sum(parent == node for parent in parents) for node in range(-1, len(draft))) == count


def head_width() -> None:
    """So many guesses of a position at most have guesses behind them."""
    for count in (1, 2, 3):
        draft = _tree(TinyEngine(VOCAB), branches=3, width=count)
        assert draft.parents is not None
        parents = draft.parents.tolist()
        depths: list[int] = []
        for parent in parents:
            depths.append(0 if parent < 0 else depths[parent] + 1)
        inner = [depths[node] for node in {*parents} - {-1}]
        assert max(inner.count(depth) for depth in inner) == count


def path() -> None:
    """The head is the one of that folder."""
    asked, engine = [], TinyEngine(VOCAB)

    def head(folder: str) -> Any:
        asked.append(folder)
        return FakeHead(engine)

    for folder in ("", "some/folder"):
        registry.make("head", {"path": folder}, DrafterResources(engine, head=head))
    assert asked == ["", "some/folder"]


def head() -> None:
    engine = TinyEngine(VOCAB)
    for wanted in (True, False):
        drafter = registry.make("portfolio", {"head": wanted}, _setup(engine))
        assert [member.name for member in drafter.members] == ["suffix", "head"][: 1 + wanted]


def precision() -> None:
    """The draft model that guesses is the one of that precision, whose guesses are others."""
    asked: list[str] = []

    def copy(kind: str) -> Any:
        asked.append(kind)
        return TinyEngine(VOCAB, seed=7)

    drafts = []
    for given in ({}, {"precision": "q4"}, {"precision": "q8"}):
        setup = replace(_setup(TinyEngine(VOCAB), TinyEngine(VOCAB, seed=1)), draft_at_precision=copy)
        drafts.append(_draft("draft-model", [1, 2, 3], setup=setup, **given).token_ids.tolist())
    assert asked == ["Q4_1", "Q8_0"]
    assert drafts[0] != drafts[1] == drafts[2]


CHECKS: dict[tuple[str, str], Callable[[], None]] = {
    ("suffix", "min_match"): min_match,
    ("suffix", "branches"): branches,
    ("draft-model", "precision"): precision,
    ("head", "path"): path,
    ("head", "branches"): head_branches,
    ("head", "width"): head_width,
    ("portfolio", "head"): head,
    **{(name, "remember"): lambda name=name: remember(name) for name in ("suffix", "portfolio")},  # type: ignore[misc]
    **{(name, "corpus"): lambda name=name: corpus(name) for name in ("suffix", "portfolio")},  # type: ignore[misc]
    **{
        (name, "siblings"): lambda name=name: siblings(name)  # type: ignore[misc]
        for name in ("draft-model", "self-q4", "self-q8")
    },
    **{
        (name, "min_probability"): lambda name=name: min_probability(name)  # type: ignore[misc]
        for name in ("draft-model", "self-q4", "self-q8")
    },
}

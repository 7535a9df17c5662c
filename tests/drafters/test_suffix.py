from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from guessahead._native import SuffixReader
from guessahead.drafters import registry, suffix_texts
from guessahead.drafters.base import DrafterResources
from guessahead.errors import ParameterError
from guessahead.types import Ask, ChoiceContext, Draft, SamplingParams
from tests.support.fake_text import letters
from tests.support.fakes import ScriptEngine, TinyEngine, decode, request

SETUP = DrafterResources(TinyEngine(), tokenizer=letters(26))  # type: ignore[arg-type]


def draft(history: list[int], budget: int = 8, **options: int) -> Draft:
    drafter = registry.make("suffix", options, SETUP)
    choice = ChoiceContext(SamplingParams(), np.array(history, np.int32), 1)
    drafter.begin(choice)
    return drafter.propose(Ask(choice, budget))


def test_longer_matches_are_surer_and_longer() -> None:
    short = draft([5, 1, 2, 8, 7, 6, 2])
    long = draft([5, 1, 2, 8, 7, 6, 5, 1, 2])
    assert short.probabilities is not None
    assert long.probabilities is not None
    assert short.probabilities[0] < long.probabilities[0] < 1
    assert len(short) < len(long)
    assert long.token_ids[:3].tolist() == [8, 7, 6]


def test_what_came_often_comes_first() -> None:
    found = draft([1, 2, 5, 1, 2, 6, 1, 2, 6, 1, 2], budget=2, branches=2)
    assert found.token_ids[0] == 6
    assert found.probabilities is not None
    assert found.probabilities[0] > 0.4


def test_the_likeliest_paths_are_taken_first() -> None:
    found = draft([3, 1, 5, 8, 3, 1, 6, 7, 3, 1, 5, 9, 2, 3, 1], budget=6, branches=3)
    assert found.parents is not None
    assert found.probabilities is not None
    reach: list[float] = []
    for node, parent in enumerate(found.parents.tolist()):
        reach.append(float(found.probabilities[node]) * (1.0 if parent < 0 else reach[parent]))
    assert reach == sorted(reach, reverse=True)


def test_unlikely_paths_are_left_out() -> None:
    drafter = registry.make("suffix", {}, SETUP)
    choice = ChoiceContext(SamplingParams(), np.array([1, 2, 3, 1], np.int32), 1)
    drafter.begin(choice)
    assert len(drafter.propose(Ask(choice, 8))) > 0
    assert len(drafter.propose(Ask(choice, 8, least_probability=0.9))) == 0


def test_remembered_outputs_are_bounded() -> None:
    shelf = suffix_texts.Shelf(40)
    for start in range(30):
        shelf.add(list(range(start, start + 12)))
        assert sum(automaton.num_tokens for automaton in shelf.automata()) <= 40
    assert len(shelf.automata()) == 2
    reader = SuffixReader(shelf.automata()[0])
    reader.read([29, 30])
    assert reader.length == 2, "the last output is there"


def test_an_output_is_remembered_to_its_end() -> None:
    """Also what came after the last question, and of an answer that was never asked about."""
    for script in ([3, 4, 5, 6, 7, 8, 9], [3, 4]):
        engine = ScriptEngine([0, 1, 2, *script, 20], 26)
        made = registry.make("suffix", {"remember": 100}, DrafterResources(engine))  # type: ignore[arg-type]
        asked = request([0, 1, 2], len(script), gamma="auto")
        assert decode(engine, made, letters(26), asked).token_ids == tuple(script)
        [automaton] = suffix_texts.shelf(engine, 100).automata()  # type: ignore[arg-type]
        reader = SuffixReader(automaton)
        reader.read(script)
        assert reader.length == len(script)
        assert automaton.num_tokens == len(script) + 1, "and nothing of the prompt"


def test_nothing_is_remembered_unless_asked() -> None:
    engine = TinyEngine()
    assert suffix_texts.shelf(engine, 0).automata() == []
    suffix_texts.shelf(engine, 0).add([1, 2, 3])
    assert suffix_texts.shelf(engine, 0).automata() == []


def test_a_corpus_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "binary").write_bytes(b"\x89PNG\xff")
    for place, problem in (
        ("missing", "neither a file nor a folder"),
        ("empty", "neither a file nor a folder"),
        ("binary", "no text files"),
    ):
        with pytest.raises(ParameterError, match=problem):
            registry.make("suffix", {"corpus": str(tmp_path / place)}, SETUP)
    with pytest.raises(ParameterError, match="tokenizer"):
        registry.make("suffix", {"corpus": str(tmp_path)}, DrafterResources(TinyEngine()))  # type: ignore[arg-type]


def test_a_corpus_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("ABC")
    monkeypatch.setattr(suffix_texts, "MAX_CORPUS_BYTES", 2)
    with pytest.raises(ParameterError, match="name a smaller folder"):
        registry.make("suffix", {"corpus": str(tmp_path)}, SETUP)


@pytest.mark.parametrize("option", ["min_match", "branches", "remember"])
def test_ranges_are_checked(option: str) -> None:
    with pytest.raises(ParameterError, match=option):
        registry.make("suffix", {option: -1}, SETUP)

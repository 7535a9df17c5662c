"""Masks, cut drafts and forced texts equal what the grammar's texts say, listed one by one."""

from __future__ import annotations

import json
import random
import sys

import numpy as np
import pytest

from guessahead.core.sampling import is_allowed
from guessahead.errors import GrammarError, StateError
from guessahead.grammar import constraint_for
from guessahead.grammar.constraint import CERTAIN, GrammarConstraint
from guessahead.types import Draft, Grammar
from tests.grammar.languages import Language, random_language, random_vocabulary
from tests.support.fake_text import FakeTokenizer

PROMPT = np.array([0, 1, 2], np.int32)


def constraint(regex: str, tokenizer: FakeTokenizer) -> GrammarConstraint:
    return constraint_for(Grammar("regex", regex), tokenizer, tokenizer.vocab_size, len(PROMPT))


def allowed(state: GrammarConstraint, tokens: list[int], tokenizer: FakeTokenizer) -> set[int]:
    history = np.array([*PROMPT, *tokens], np.int32)
    return set(np.flatnonzero(is_allowed(state.mask(history), tokenizer.vocab_size)).tolist())


def expected(language: Language, before: str, tokenizer: FakeTokenizer) -> set[int]:
    """One by one: a piece if some text goes on with it, EOS if the text may end here."""
    found = {
        token
        for token, piece in enumerate(tokenizer.pieces)
        if piece and token not in tokenizer.eos_ids and language.allows(before, piece.decode())
    }
    return found | (set(tokenizer.eos_ids) if before in language.texts else set())


def masks(language: Language, before: str, tokenizer: FakeTokenizer) -> list[set[int]]:
    """What a mask may be: every token that may come; or the tokenizer's own, if only one text may come."""
    every = expected(language, before, tokenizer)
    forced = tokenizer.encode(language.forced(before))
    return [every, {forced[0]}] if forced else [every]


def allowed_afresh(language: Language, tokens: list[int], tokenizer: FakeTokenizer) -> set[int]:
    """The mask after these tokens, committed one after the other."""
    state = constraint(language.regex, tokenizer)
    for token in tokens:
        state.commit(token)
    return allowed(state, tokens, tokenizer)


@pytest.mark.parametrize("seed", range(60))
def test_masks_are_what_the_texts_of_the_grammar_say(seed: int) -> None:
    random_ = random.Random(seed)
    language, tokenizer = random_language(random_), random_vocabulary(random_)
    for _ in range(4):
        state, tokens, before = constraint(language.regex, tokenizer), [], ""
        while not state.is_complete:
            ids = allowed(state, tokens, tokenizer)
            assert ids in masks(language, before, tokenizer), (language.regex, before)
            token = random_.choice(sorted(ids))
            state.commit(token)
            tokens.append(token)
            if token in tokenizer.eos_ids:
                break
            before += tokenizer.pieces[token].decode()
            assert state.is_complete == (not language.goes_on(before))
        assert before in language.texts


@pytest.mark.parametrize("seed", range(60))
def test_a_draft_is_cut_where_the_grammar_refuses_it(seed: int) -> None:
    """Random trees after random beginnings: what is kept, and the mask of each node, as the texts say."""
    random_ = random.Random(1000 + seed)
    language, tokenizer = random_language(random_), random_vocabulary(random_)
    state, tokens, before = constraint(language.regex, tokenizer), [], ""
    while not state.is_complete:
        guesses, parents = random_tree(random_, tokenizer)
        kept = kept_by_hand(guesses, parents, language, before, tokenizer)
        found = state.admitted(Draft(np.array(guesses, np.int32), np.array(parents, np.int32)))
        assert found.token_ids.tolist() == [guesses[node] for node in kept]
        for path in kept.values():
            text = before + "".join(tokenizer.pieces[token].decode() for token in path[:-1])
            ends = path[-1] in tokenizer.eos_ids
            text += "" if ends else tokenizer.pieces[path[-1]].decode()
            if not ends and language.goes_on(text):
                assert allowed(state, [*tokens, *path], tokenizer) == allowed_afresh(
                    language, [*tokens, *path], tokenizer
                )
        token = random_.choice(sorted(expected(language, before, tokenizer) - {*tokenizer.eos_ids}))
        state.commit(token)
        tokens.append(token)
        before += tokenizer.pieces[token].decode()


def random_tree(random_: random.Random, tokenizer: FakeTokenizer) -> tuple[list[int], list[int]]:
    """Guesses and their parents, no guess twice under one parent."""
    nodes: dict[tuple[int, int], None] = {}
    for _ in range(40):
        nodes.setdefault((random_.randint(-1, len(nodes) - 1), random_.randrange(tokenizer.vocab_size)))
    return [token for _, token in nodes], [parent for parent, _ in nodes]


def kept_by_hand(
    guesses: list[int], parents: list[int], language: Language, before: str, tokenizer: FakeTokenizer
) -> dict[int, tuple[int, ...]]:
    """The nodes that may follow their parents, before the text ends, and their paths."""
    texts: dict[int, str | None] = {-1: before}
    paths: dict[int, tuple[int, ...]] = {-1: ()}
    for node, (parent, token) in enumerate(zip(parents, guesses, strict=True)):
        text = texts.get(parent)
        if text is None or not language.goes_on(text) or token not in expected(language, text, tokenizer):
            continue
        texts[node] = None if token in tokenizer.eos_ids else text + tokenizer.pieces[token].decode()
        paths[node] = (*paths[parent], token)
    del paths[-1]
    return paths


def test_of_a_sampled_draft_the_first_refused_guess_remains() -> None:
    """It has to be tested, or the distribution would change."""
    state = constraint("abc", FakeTokenizer([b"a", b"b", b"c", b"<eos>"], (3,)))
    q = np.ones(4) / 4
    draft = Draft(np.array([0, 2, 2, 1], np.int32), None, np.ones(4, np.float32), None, (q, q, q, q))
    found = state.admitted(draft)
    assert found.token_ids.tolist() == [0, 2]
    assert found.distributions is not None
    assert len(found.distributions) == 2
    assert state.admitted(Draft(draft.token_ids)).token_ids.tolist() == [0]


@pytest.mark.parametrize("seed", range(60))
def test_forced_text_is_what_all_texts_share(seed: int) -> None:
    random_ = random.Random(2000 + seed)
    language, tokenizer = random_language(random_), random_vocabulary(random_)
    state, before = constraint(language.regex, tokenizer), ""
    while not state.is_complete:
        text = "".join(tokenizer.pieces[token].decode() for token, _ in state.forced(99))
        assert text == language.forced(before)
        assert state.forced(1) == state.forced(99)[:1] or len(state.forced(99)) == 1
        token = random_.choice(sorted(expected(language, before, tokenizer) - {*tokenizer.eos_ids}))
        state.commit(token)
        before += tokenizer.pieces[token].decode()


def test_a_forced_text_is_cut_as_the_tokenizer_cuts_it() -> None:
    """Up to where a longer token may come, and where nothing is forced, every token may."""
    tokenizer = FakeTokenizer([b"a", b"b", b"c", b"d", b"ab", b"bc", b"<eos>"], (6,))
    state = constraint("ab(c|d)?", tokenizer)
    assert allowed(state, [], tokenizer) == {0}
    assert [token for token, probability in state.forced(9) if probability == CERTAIN] == [0]
    state.commit(0)
    assert allowed(state, [0], tokenizer) == {1, 5}, "b may be the beginning of bc"
    state.commit(1)
    assert allowed(state, [0, 1], tokenizer) == {2, 3, 6}


def test_a_token_that_is_not_allowed_cannot_be_committed() -> None:
    tokenizer = FakeTokenizer([b"a", b"b", b"<eos>"], (2,))
    state = constraint("ab?", tokenizer)
    with pytest.raises(StateError, match="token 1 is not allowed"):
        state.commit(1)
    state.commit(0)
    state.commit(2)
    assert state.is_complete
    with pytest.raises(StateError, match="token 0"):
        state.commit(0)


def test_a_dead_end_has_a_reason_and_spoils_nothing_beside_it() -> None:
    """No token holds "z": after "a" nothing can come, but the other branch is as it was."""
    tokenizer = FakeTokenizer([b"a", b"b", b"c", b"<eos>"], (3,))
    state = constraint("a(z|y)|bcc", tokenizer)
    for _ in range(2):
        assert allowed(state, [0], tokenizer) == set()
        assert allowed(state, [1], tokenizer) == {2}
        assert state.admitted(Draft(np.array([1, 2], np.int32))).token_ids.tolist() == [1, 2]
    state.commit(0)
    with pytest.raises(GrammarError, match="no token of the model can continue the text after 'a'"):
        state.mask(np.array([*PROMPT, 0], np.int32))


def test_a_forced_text_that_no_tokens_hold_is_a_dead_end() -> None:
    tokenizer = FakeTokenizer([b"a", b"b", b"c", b"<eos>"], (3,))
    state = constraint("b|azc*", tokenizer)
    state.commit(0)
    with pytest.raises(GrammarError, match="after 'a'"):
        state.mask(np.array([*PROMPT, 0], np.int32))


@pytest.mark.parametrize(
    ("kind", "source", "message"),
    [
        ("regex", "a(", "regular expression cannot be used: .*unclosed group"),
        ("lark", "start: nothing", "grammar cannot be used: .*unknown name"),
        ("json_schema", '{"type": "text"}', "JSON schema cannot be used: .*text"),
        ("json_schema", '{"not": {}}', "JSON schema cannot be used: .*not"),
        ("json_schema", "false", "JSON schema cannot be used"),
    ],
)
def test_grammars_that_cannot_be_used(kind: str, source: str, message: str) -> None:
    tokenizer = FakeTokenizer([bytes([i]) for i in range(128)] + [b""], (128,))
    with pytest.raises(GrammarError, match=message) as raised:
        constraint_for(Grammar(kind, source), tokenizer, 129, 1)  # type: ignore[arg-type]
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "choice", [("a/b", 'say "x"'), ("line\nbreak", "tab\t", "é \u4e2d"), ("a.c", "a\\b", "^$")]
)
def test_a_choice_is_one_of_its_texts(choice: tuple[str, ...]) -> None:
    """Whatever they hold."""
    tokenizer = FakeTokenizer([bytes([i]) for i in range(256)] + [b""], (256,))
    source = Grammar("choice", json.dumps(choice))
    for text in (*choice, "axc", "a"):
        state = constraint_for(source, tokenizer, 257, 0)
        draft = state.admitted(Draft(np.array(list(text.encode()), np.int32)))
        for token in draft.token_ids.tolist():
            state.commit(token)
        assert (text in choice) == (state.is_complete and len(draft) == len(text.encode()))


def test_a_model_without_an_end_has_no_grammars() -> None:
    with pytest.raises(GrammarError, match="no token that ends a text"):
        constraint("a", FakeTokenizer([b"a"]))


def test_without_llguidance_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llguidance", None)
    with pytest.raises(GrammarError, match=r"pip install 'guessahead\[structured\]'"):
        constraint("a", FakeTokenizer([b"a", b""], (1,)))


@pytest.mark.parametrize("num_ids", [31, 32, 33, 64])
def test_all_masks_have_the_same_length(num_ids: int) -> None:
    """Those of dead ends too, whatever the number of tokens."""
    tokenizer = FakeTokenizer([b"a", b"b", b"<eos>", *[b""] * (num_ids - 3)], (2,))
    state = constraint("a(z|y)|bb?", tokenizer)
    found = [state.mask(PROMPT, path) for path in ((), (0,), (1,), (1, 1), (1, 2))]
    assert {len(mask) for mask in found} == {(num_ids + 31) // 32}

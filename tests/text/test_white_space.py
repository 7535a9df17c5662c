"""White space around special tokens is cut as llama.cpp does, and in folders as the Hub does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from guessahead.text.folder_tokenizer import read_text_parts
from guessahead.text.tokenizer import Tokenizer
from tests.text import store
from tests.text.test_folder_tokenizer import IDS, write
from tests.text.white_space import DATA, PHI3, models, texts

ANSWERS: dict[str, list[list[int]]] = store.load(DATA)["answers"]
MODELS: dict[str, dict[str, Any]] = dict(models())


@pytest.mark.parametrize("name", MODELS)
def test_ids_equal_llama_cpp(name: str) -> None:
    built = Tokenizer.from_gguf(MODELS[name])
    for text, expected in zip(texts(), ANSWERS[name], strict=True):
        assert built.encode(text, special=True, bos=False) == expected, text


def test_phi3_is_known_by_its_name() -> None:
    first = ANSWERS[f"words/{PHI3[0]}"]
    assert all(ANSWERS[f"words/{name}"] == first for name in PHI3)
    assert ANSWERS["words/Phi 3"] == ANSWERS["words/Llama"] != first


@pytest.mark.parametrize(("left", "right"), [(False, False), (False, True), (True, False), (True, True)])
def test_a_folder_says_it_of_every_token(tmp_path: Path, left: bool, right: bool) -> None:
    folder = write(tmp_path / "folder")
    layout = json.loads((folder / "tokenizer.json").read_text())
    for token in layout["added_tokens"]:
        token |= {"lstrip": left, "rstrip": right}
    (folder / "tokenizer.json").write_text(json.dumps(layout))
    built, _ = read_text_parts(folder)
    a, blank = built.encode("a"), built.encode(" \n")
    expected = [*a, *([] if left else blank), IDS["</s>"], *([] if right else blank), *a]
    assert built.encode("a \n</s> \na", special=True) == expected

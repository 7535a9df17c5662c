"""The sandbox renders what Jinja renders: random templates, compared with Jinja's own environment."""

from __future__ import annotations

import random

import pytest

from guessahead.errors import ModelError
from guessahead.text.safe_template import SafeTemplate
from tests.text.random_templates import Writer, by_jinja

VARIABLES = {
    "messages": [
        {"role": "system", "content": "Be  brief.\n"},
        {"role": "user", "content": "aXb 1 <é> & 世"},
        {"role": "assistant", "content": ""},
        {"role": "user", "content": "b\n b"},
    ],
    "add_generation_prompt": True,
    "tools": None,
    "bos_token": "<s>",
}
NUM_TEMPLATES, NUM_BATCHES = 120, 2


@pytest.mark.parametrize("batch", range(NUM_BATCHES))
def test_random_templates_render_as_in_jinja(batch: int) -> None:
    num_rendered = 0
    for number in range(NUM_TEMPLATES):
        source = Writer(random.Random(f"{batch} {number}")).template()
        expected = by_jinja(source, VARIABLES)
        if expected is None:
            with pytest.raises(ModelError, match="fails"):
                SafeTemplate(source).render(VARIABLES)
        else:
            assert SafeTemplate(source).render(VARIABLES) == expected, source
            num_rendered += 1
    assert num_rendered > 0.7 * NUM_TEMPLATES

"""Several guesses of a whole window at once are what guessing one by one gives."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from guessahead.training.network import Head, Memory, Shape

pytestmark = pytest.mark.reference

GUESSES, TIME = 4, 14
SHAPE = Shape(32, 48, 4, 2, 8, 3, 20, 1e-5, 10000.0)
# Number of the text of each position, in two windows; texts of one, two and three positions among them.
TEXTS = torch.tensor([[0, 0, 0, 0, 0, 1, 2, 2, 2, 3, 3, 4, 4, 4], [0] * 9 + [1] * 5])


@pytest.fixture(scope="module")
def head() -> Head:
    torch.manual_seed(1)
    head = Head(SHAPE, torch.randn(30, SHAPE.width))
    with torch.no_grad():
        for values in head.parameters():
            values.copy_(torch.randn_like(values) * (values.shape[-1] ** -0.5 if values.ndim == 2 else 0.3))
    return head


class OneByOne:
    """The definition: a list of rows, each attended by those behind it."""

    def __init__(self, head: Head) -> None:
        self._head = head
        self._keys: list[Tensor] = []
        self._values: list[Tensor] = []

    def run(self, state: Tensor, token: Tensor, position: int) -> Tensor:
        """The state behind one more row. state: [width]."""
        head, size = self._head, SHAPE.head_dim
        embedded = head.input_layernorm(head.embeddings[token].float())
        both = torch.cat([embedded, head.hidden_norm(state)])
        query = self._turned(head.q_proj(both).reshape(-1, size), position)
        self._keys.append(self._turned(head.k_proj(both).reshape(-1, size), position))
        self._values.append(head.v_proj(both).reshape(-1, size))
        attended = []
        for number, each in enumerate(query):
            group = number // (SHAPE.num_heads // SHAPE.num_kv_heads)
            scores = torch.stack([each @ key[group] for key in self._keys]) / size**0.5
            weights = scores.softmax(0)
            parts = [weight * value[group] for weight, value in zip(weights, self._values, strict=True)]
            attended.append(torch.stack(parts).sum(0))
        state = state + head.o_proj(torch.cat(attended))
        normed = head.post_attention_layernorm(state)
        result: Tensor = state + head.down_proj(
            functional.silu(head.gate_proj(normed)) * head.up_proj(normed)
        )
        return result

    @property
    def num_rows(self) -> int:
        return len(self._keys)

    def forget(self, num_rows: int) -> None:
        del self._keys[num_rows:], self._values[num_rows:]

    @staticmethod
    def _turned(rows: Tensor, position: int) -> Tensor:
        """Each pair (i, i + half) by position * base^(-i / half), as complex numbers."""
        half = SHAPE.head_dim // 2
        angles = position * SHAPE.rope_base ** (-torch.arange(half) / half)
        turned = torch.complex(rows[:, :half], rows[:, half:]) * torch.polar(torch.ones(half), angles)
        return torch.cat([turned.real, turned.imag], -1)


def test_a_window_is_what_guessing_one_by_one_gives(head: Head) -> None:
    torch.manual_seed(2)
    hidden = torch.randn(2, TIME, SHAPE.num_layers, SHAPE.width)
    next_ids = torch.randint(0, 30, (2, TIME))
    num_compared = 0
    with torch.inference_mode():
        memory = Memory(TEXTS[:, :, None] == TEXTS[:, None, :])
        fused = state = head.fuse(hidden)
        windows = []
        for _ in range(GUESSES):
            state = head.step(state, next_ids, memory)
            windows.append(state)
            state = state.roll(1, 1)
        for window in range(2):
            rows = OneByOne(head)
            for t in range(TIME):
                if t and TEXTS[window, t] != TEXTS[window, t - 1]:
                    rows = OneByOne(head)
                state = rows.run(fused[window, t], next_ids[window, t], t)
                num_true = rows.num_rows
                for guess in range(GUESSES):
                    at = t + guess
                    if at == TIME or TEXTS[window, at] != TEXTS[window, t]:
                        break
                    if guess:
                        state = rows.run(state, next_ids[window, at], at)
                    torch.testing.assert_close(windows[guess][window, at], state, rtol=1e-4, atol=1e-5)
                    num_compared += 1
                rows.forget(num_true)
    assert num_compared > 60


def test_other_rows_do_matter(head: Head) -> None:
    """Else the comparison would say little: a guess depends on the first row of its text."""
    torch.manual_seed(2)
    hidden, next_ids = torch.randn(1, 6, SHAPE.num_layers, SHAPE.width), torch.randint(0, 30, (1, 6))
    results = []
    for change in (0.0, 1.0):
        changed = hidden.clone()
        changed[0, 0] += change
        memory = Memory(torch.ones(1, 6, 6, dtype=torch.bool))
        with torch.inference_mode():
            state = head.step(head.fuse(changed), next_ids, memory)
            results.append(head.step(state.roll(1, 1), next_ids, memory)[0, 5])
    assert (results[0] - results[1]).abs().max() > 1e-3


def test_it_starts_from_the_targets_last_layer() -> None:
    """Which goes on from the last hidden states alone, but for what is new and small."""
    torch.manual_seed(3)
    head = Head(SHAPE, torch.randn(30, SHAPE.width))
    width, queries, keys = SHAPE.width, SHAPE.num_heads * SHAPE.head_dim, SHAPE.num_kv_heads * SHAPE.head_dim
    layer = {
        "q_proj": torch.randn(queries, width),
        "k_proj": torch.randn(keys, width),
        "v_proj": torch.randn(keys, width),
        "o_proj": torch.randn(width, queries),
        "gate_proj": torch.randn(SHAPE.ffn_width, width),
        "up_proj": torch.randn(SHAPE.ffn_width, width),
        "down_proj": torch.randn(width, SHAPE.ffn_width),
        "hidden_norm": torch.rand(width),
        "post_attention_layernorm": torch.rand(width),
    }
    output = torch.randn(SHAPE.vocab_size, width)
    head.start_from(output, torch.rand(width), layer)
    assert torch.equal(head.lm_head.weight, output)
    for name in ("o_proj", "gate_proj", "up_proj", "down_proj", "hidden_norm", "post_attention_layernorm"):
        assert torch.equal(head.get_submodule(name).weight, layer[name]), name
    for name in ("q_proj", "k_proj", "v_proj"):
        weight = head.get_submodule(name).weight
        assert isinstance(weight, Tensor)
        assert torch.equal(weight[:, width:], layer[name])
        assert weight[:, :width].abs().max() < 0.1
    hidden = torch.randn(1, 1, SHAPE.num_layers, width)
    fused = head.fuse(hidden)[0, 0]
    assert functional.cosine_similarity(fused, hidden[0, 0, -1], 0) > 0.95

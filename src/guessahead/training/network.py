"""The head as a torch module, in the shape of EAGLE-3 (Li, Wei, Zhang, Zhang 2025, arXiv:2503.01840).

At position t its inputs are the target's hidden states of t, from several layers (`fc` fuses them), and the
embedding of the token at t + 1, which is already known; one decoder layer computes from both a state, from
which `lm_head` guesses the token at t + 2. For the next guess, that state replaces the hidden states of t +
1. So the head is also trained on its own states, several guesses ahead.

Module names are those of the published layout, so that an export only renames.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional

_NEW: Final = 0.1  # scale of weights that are initialised at random, beside others that are not
# The target's norm fits trained states; with untrained ones, logits of its size would be confidently wrong.
_SOFT: Final = 0.3


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a head: those of the target's layers, except for its own vocabulary.

    rope_base: of the rotation by halves. num_layers: hidden states that are fused.
    """

    width: int
    ffn_width: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    num_layers: int
    vocab_size: int
    norm_epsilon: float
    rope_base: float


class Norm(nn.Module):
    """RMS norm with a weight."""

    def __init__(self, width: int, epsilon: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        normed: Tensor = functional.rms_norm(x.float(), x.shape[-1:], self.weight, self.epsilon)
        return normed


class Memory:
    """Keys and values of earlier guesses, and the mask of those that a row attends to.

    same: bool[batch, t, s], whether positions t and s belong to one text.
    """

    def __init__(self, same: Tensor) -> None:
        self._same = same
        self._keys: list[Tensor] = []
        self._values: list[Tensor] = []

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """All arguments and the result: [batch, heads, time, head_dim].

        The j-th call is for the j-th guess: its row at t attends to rows with known hidden states up to t -
        j, then to one row of each earlier guess, then to itself.
        """
        self._keys.append(key)
        self._values.append(value)
        step = len(self._keys) - 1
        scale = query.shape[-1] ** -0.5
        time = query.shape[2]
        seen = self._same & torch.ones(time, time, dtype=torch.bool).tril(-step)
        scores = (query @ self._keys[0].transpose(-1, -2)).float() * scale
        parts = [scores.masked_fill(~seen[:, None], float("-inf"))]
        for back, key_then in enumerate(reversed(self._keys[1:])):
            # Rows before the first have no such predecessor; their results are never used.
            parts.append((query * key_then.roll(back, 2)).sum(-1, keepdim=True).float() * scale)
        if step == 0:
            only: Tensor = parts[0].softmax(-1).to(value.dtype) @ value
            return only
        weights = torch.cat(parts, -1).softmax(-1).to(value.dtype)
        result = weights[..., :time] @ self._values[0]
        for back, value_then in enumerate(reversed(self._values[1:])):
            result = result + weights[..., time + back : time + back + 1] * value_then.roll(back, 2)
        return result


class Head(nn.Module):
    """The head (see the module docstring). `embeddings`: float[target vocabulary, width], not trained."""

    embeddings: Tensor

    def __init__(self, shape: Shape, embeddings: Tensor) -> None:
        super().__init__()
        self.shape = s = shape
        self.register_buffer("embeddings", embeddings.to(torch.bfloat16), persistent=False)

        def linear(inputs: int, outputs: int) -> nn.Linear:
            return nn.Linear(inputs, outputs, bias=False)

        self.fc = linear(s.num_layers * s.width, s.width)
        self.input_layernorm = Norm(s.width, s.norm_epsilon)
        self.hidden_norm = Norm(s.width, s.norm_epsilon)
        self.q_proj = linear(2 * s.width, s.num_heads * s.head_dim)
        self.k_proj = linear(2 * s.width, s.num_kv_heads * s.head_dim)
        self.v_proj = linear(2 * s.width, s.num_kv_heads * s.head_dim)
        self.o_proj = linear(s.num_heads * s.head_dim, s.width)
        self.post_attention_layernorm = Norm(s.width, s.norm_epsilon)
        self.gate_proj = linear(s.width, s.ffn_width)
        self.up_proj = linear(s.width, s.ffn_width)
        self.down_proj = linear(s.ffn_width, s.width)
        self.norm = Norm(s.width, s.norm_epsilon)
        self.lm_head = linear(s.width, s.vocab_size)

    def start_from(self, output: Tensor, norm: Tensor, layer: Mapping[str, Tensor] | None) -> None:
        """Initialise with the target's weights. output: its rows of the head's tokens.

        layer: weights of the target's last layer, or None. It reads the last of the fused hidden states; its
            weights for the embedding of the next token are new.
        """
        width = self.shape.width
        with torch.no_grad():
            self.lm_head.weight.copy_(output)
            self.norm.weight.copy_(norm * _SOFT)
            if layer is None:
                return
            for name, values in layer.items():
                weight = self.get_submodule(name).weight
                assert isinstance(weight, Tensor)
                weight[..., -values.shape[-1] :] = values
            for projection in (self.q_proj, self.k_proj, self.v_proj):
                projection.weight[:, :width] *= _NEW
            self.fc.weight *= _NEW
            self.fc.weight[:, -width:] += torch.eye(width)

    def fuse(self, hidden: Tensor) -> Tensor:
        """[batch, time, layers, width] -> [batch, time, width]."""
        fused: Tensor = self.fc(hidden.flatten(2))
        return fused.float()

    def step(self, state: Tensor, next_ids: Tensor, memory: Memory) -> Tensor:
        """The states after rows (state of t, token at t + 1): [batch, time, width]."""
        tokens = self.input_layernorm(functional.embedding(next_ids, self.embeddings))
        both = torch.cat([tokens, self.hidden_norm(state)], -1)
        query, key, value = (
            self._heads(projection(both)) for projection in (self.q_proj, self.k_proj, self.v_proj)
        )
        repeat = self.shape.num_heads // self.shape.num_kv_heads
        query, key = self._rotate(query), self._rotate(key)
        key, value = (each.repeat_interleave(repeat, 1) for each in (key, value))
        attended = memory.attend(query, key, value).transpose(1, 2).flatten(2)
        state = state + self.o_proj(attended)
        normed = self.post_attention_layernorm(state)
        state = state + self.down_proj(functional.silu(self.gate_proj(normed)) * self.up_proj(normed))
        return state.float()

    def logits(self, state: Tensor) -> Tensor:
        result: Tensor = self.lm_head(self.norm(state))
        return result

    def _heads(self, x: Tensor) -> Tensor:
        return x.reshape(*x.shape[:-1], -1, self.shape.head_dim).transpose(1, 2)

    def _rotate(self, x: Tensor) -> Tensor:
        half = self.shape.head_dim // 2
        frequencies = self.shape.rope_base ** (-torch.arange(half) / half)
        angles = torch.arange(x.shape[2])[:, None] * frequencies
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        first, second = x[..., :half], x[..., half:]
        return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)

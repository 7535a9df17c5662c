"""Tiny random models as GGUF files, for tests: two layers, peaked logits, a real byte-level BPE tokenizer.

Logits of a random model are almost uniform, and almost-uniform logits prove nothing about equality, so the
output head is scaled (CASES.md, TINY).

Rows of q and k. GGUF files of the llama architecture rotate *adjacent* pairs (2i, 2i+1) of a head (NORM
rope), those of qwen2 rotate (i, i + d/2) (NEOX rope), as the original checkpoints of both do. Hence the
q and k matrices of a llama GGUF have their rows permuted within each head: `to_gguf_rows` and back,
`to_original_rows`. `TinyModel.weights` holds what is in the file; `TinyModel.original_weights()` undoes the
permutation and uses the original names, for a transformers model of the same weights.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np

from guessahead.checkpoints.gguf import GGMLType, NewTensor, dequantize, quantize, write_gguf
from guessahead.types import Float32
from tests.support.families import FAMILIES, Family

CORPUS = (
    "the quick brown fox jumps over the lazy dog and then the lazy dog jumps over the quick brown fox; "
    "def function(self, value): return self.value + value\n    for index in range(10): print(index)\n"
)
SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|tool|>")
NUM_MERGES = 60
NUM_TOKENS = 256 + NUM_MERGES + len(SPECIAL_TOKENS)
CHAT_TEMPLATE = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] "
    "+ '<|im_end|>' + '\\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
_NORMAL, _CONTROL, _USER_DEFINED, _UNUSED = 1, 3, 4, 5
_ORIGINAL_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


@dataclass(frozen=True)
class TinyModel:
    """A written model. weights: GGUF tensor name -> the float32 values that the file's bytes stand for."""

    path: Path
    arch: str
    vocab: int
    layers: int
    width: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    tied: bool
    context: int
    rope_base: float
    epsilon: float
    weights: dict[str, Float32] = field(repr=False)

    def original_weights(self) -> dict[str, Float32]:
        """The weights under the names, and with the row order, of the original (transformers) checkpoint."""
        renamed = {}
        for name, values in self.weights.items():
            if name.startswith("rope_"):  # the original has a formula, or settings, instead
                continue
            if self.family.paired and name.endswith(("attn_q.weight", "attn_k.weight")):
                heads = self.heads if "attn_q" in name else self.kv_heads
                values = to_original_rows(values, heads)
            elif values.ndim == 1 and self.family.shift:
                values = values - np.float32(self.family.shift)
            renamed[original_name(name, self.family)] = values
        if self.tied:
            renamed["lm_head.weight"] = renamed["model.embed_tokens.weight"]
        return renamed

    @property
    def family(self) -> Family:
        return FAMILIES[self.arch]

    def config(self) -> dict[str, object]:
        """Arguments of the configuration class of transformers."""
        config: dict[str, object] = {
            "vocab_size": self.vocab,
            "hidden_size": self.width,
            "intermediate_size": self.ffn,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "max_position_embeddings": self.context,
            "rope_theta": self.rope_base,
            "rms_norm_eps": self.epsilon,
            "tie_word_embeddings": self.tied,
        }
        config |= self.family.config_of(self)
        return config | ({"head_dim": self.head_dim} if self.family.has_head_dim else {})


def tiny_gguf(
    path: str | Path,
    arch: str = "llama",
    *,
    format: str = "Q4_1",
    formats: Mapping[str, str] | None = None,
    vocab: int = NUM_TOKENS,
    layers: int | None = None,
    width: int | None = None,
    heads: int = 4,
    kv_heads: int = 2,
    head_dim: int | None = None,
    ffn: int | None = None,
    tied: bool = False,
    context: int = 1024,
    head_scale: float = 20.0,
    rope_base: float = 10000.0,
    pre: str | None = None,
    seed: int = 0,
) -> TinyModel:
    """Write a random model and say what is in it.

    arch: one of tests/support/families.py, e.g. "llama", or "qwen2" (which has q, k and v biases).
    format: type of all matrices; formats: exceptions by the stem of the name, e.g. {"token_embd": "Q8_0"}.
    vocab: rows of the embedding, at least NUM_TOKENS; what is more is filled with unused tokens.
    width: default 64, or 256 where a format has blocks of 256; so for ffn, with twice that.
    head_dim: default width / heads; qwen2 wants exactly that.
    """
    named = dict(formats or {})
    blocks = max(GGMLType[name].block_size for name in (format, *named.values()))
    width = width or (256 if blocks == 256 else 64)
    model = TinyModel(
        path=Path(path),
        arch=arch,
        vocab=vocab,
        layers=layers or FAMILIES[arch].layers,
        width=width,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim or width // heads,
        ffn=ffn or 2 * width,
        tied=tied,
        context=context,
        rope_base=rope_base,
        epsilon=1e-5,
        weights={},
    )
    tensors = []
    for name, values in _random_weights(model, head_scale, seed).items():
        stem = name.split(".")[-2]
        kind = GGMLType[named.get(stem, format)] if values.ndim == 2 else GGMLType.F32
        data = quantize(values, kind)
        model.weights[name] = dequantize(data, kind).reshape(values.shape)
        tensors.append(NewTensor(name, kind, values.shape, lambda data=data: (data,)))
    write_gguf(path, _metadata(model) | tokenizer_metadata(vocab, pre or _PRE.get(arch, "smollm")), tensors)
    return model


_PRE = {"qwen2": "qwen2", "qwen3": "qwen2"}


def to_gguf_rows(values: Float32, heads: int) -> Float32:
    """Original row order (i, i + d/2 are a pair) -> that of a llama GGUF (2i, 2i + 1 are a pair)."""
    return values.reshape(heads, 2, -1, values.shape[-1]).swapaxes(1, 2).reshape(values.shape)


def to_original_rows(values: Float32, heads: int) -> Float32:
    """The inverse of `to_gguf_rows`."""
    return values.reshape(heads, -1, 2, values.shape[-1]).swapaxes(1, 2).reshape(values.shape)


def original_name(name: str, family: Family = FAMILIES["llama"]) -> str:
    """GGUF name -> transformers name: blk.0.attn_q.weight -> model.layers.0.self_attn.q_proj.weight."""
    *block, stem, suffix = name.split(".")
    prefix = f"model.layers.{block[1]}." if block else ""
    return f"{prefix}{(_ORIGINAL_NAMES | dict(family.names))[stem]}.{suffix}"


def _random_weights(model: TinyModel, head_scale: float, seed: int) -> dict[str, Float32]:
    random = np.random.default_rng([seed, 0x7E57])

    def matrix(rows: int, columns: int, gain: float = 1.0) -> Float32:
        return (random.standard_normal((rows, columns)) * gain / np.sqrt(columns)).astype(np.float32)

    def vector(size: int, mean: float = 1.0, spread: float = 0.1) -> Float32:
        return (mean + spread * random.standard_normal(size)).astype(np.float32)

    width, q_rows, kv_rows = model.width, model.heads * model.head_dim, model.kv_heads * model.head_dim
    # Embeddings have small entries, so that the layers and not the last token decide what comes next.
    weights = {"token_embd.weight": matrix(model.vocab, width)}
    for layer in range(model.layers):
        block = f"blk.{layer}."
        weights |= {
            block + "attn_norm.weight": vector(width),
            block + "attn_q.weight": matrix(q_rows, width, 2.0),
            block + "attn_k.weight": matrix(kv_rows, width, 2.0),
            block + "attn_v.weight": matrix(kv_rows, width),
            block + "attn_output.weight": matrix(width, q_rows),
            block + "ffn_norm.weight": vector(width),
            block + "ffn_gate.weight": matrix(model.ffn, width),
            block + "ffn_up.weight": matrix(model.ffn, width),
            block + "ffn_down.weight": matrix(width, model.ffn),
        }
        if model.arch == "qwen2":
            for name, rows in (("attn_q", q_rows), ("attn_k", kv_rows), ("attn_v", kv_rows)):
                weights[f"{block}{name}.bias"] = vector(rows, 0.0, 0.5)
    weights["output_norm.weight"] = vector(width)
    if model.tied:
        # The head is the embedding: what would scale its rows to the same logits scales the last norm.
        weights["output_norm.weight"] *= np.float32(head_scale)
    else:
        weights["output.weight"] = matrix(model.vocab, width, head_scale)
    return model.family.change(weights, model)


def _metadata(model: TinyModel) -> dict[str, object]:
    arch = model.family.arch
    metadata = {
        "general.architecture": arch,
        "general.name": f"tiny {arch}",
        f"{arch}.block_count": model.layers,
        f"{arch}.context_length": model.context,
        f"{arch}.embedding_length": model.width,
        f"{arch}.feed_forward_length": model.ffn,
        f"{arch}.attention.head_count": model.heads,
        f"{arch}.attention.head_count_kv": model.kv_heads,
        f"{arch}.attention.key_length": model.head_dim,
        f"{arch}.attention.value_length": model.head_dim,
        f"{arch}.attention.layer_norm_rms_epsilon": model.epsilon,
        f"{arch}.rope.freq_base": model.rope_base,
        f"{arch}.rope.dimension_count": model.head_dim,
        f"{arch}.vocab_size": model.vocab,
    }
    return metadata | {f"{arch}.{key}": value for key, value in model.family.keys.items()}


def tokenizer_metadata(vocab: int = NUM_TOKENS, pre: str = "smollm") -> dict[str, object]:
    """A byte-level BPE tokenizer: 256 bytes, merges learned from CORPUS, special tokens, unused ones."""
    alphabet = byte_alphabet()
    merges = _learn_merges(alphabet)
    tokens = [alphabet[byte] for byte in range(256)] + [left + right for left, right in merges]
    kinds = [_NORMAL] * len(tokens) + [_CONTROL] * (len(SPECIAL_TOKENS) - 1) + [_USER_DEFINED]
    tokens += SPECIAL_TOKENS
    kinds += [_UNUSED] * (vocab - len(tokens))
    tokens += [f"[PAD{index}]" for index in range(len(tokens), vocab)]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": np.array(kinds, np.int32),
        "tokenizer.ggml.merges": [f"{left} {right}" for left, right in merges],
        "tokenizer.ggml.bos_token_id": tokens.index("<|endoftext|>"),
        "tokenizer.ggml.eos_token_id": tokens.index("<|im_end|>"),
        "tokenizer.ggml.padding_token_id": tokens.index("<|endoftext|>"),
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": CHAT_TEMPLATE,
    }


def byte_alphabet() -> list[str]:
    """The printable character that stands for each byte in byte-level BPE (GPT-2's table)."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


def _learn_merges(alphabet: list[str]) -> list[tuple[str, str]]:
    """NUM_MERGES merges by the usual rule: the most frequent neighbours, ties to the first pair in order."""
    spaced = CORPUS.replace(" ", "\0 ").split("\0")  # a word begins with its space
    words = [[alphabet[byte] for byte in word.encode()] for word in spaced]
    merges: list[tuple[str, str]] = []
    while len(merges) < NUM_MERGES:
        pairs = Counter(pair for word in words for pair in pairwise(word))
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        words = [_merge(word, best) for word in words]
    return merges


def _merge(word: list[str], pair: tuple[str, str]) -> list[str]:
    merged: list[str] = []
    for part in word:
        if merged and (merged[-1], part) == pair:
            merged[-1] += part
        else:
            merged.append(part)
    return merged

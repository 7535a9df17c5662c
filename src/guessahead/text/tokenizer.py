"""Tokenizers of GGUF files: byte-level BPE ("gpt2") and SentencePiece ("llama"), as llama.cpp reads them.

For BPE, the pre-tokenizer named in `tokenizer.ggml.pre` splits text into words, every word is written in
printable stand-ins of its UTF-8 bytes, and the merges join those. The Rust library `tokenizers` does this;
this file configures it from the metadata, and implements the differences between that library and llama.cpp,
whose ids are the reference:

- Special tokens are cut out of the text longest first, over the whole text (not leftmost first).
- A byte without a token (SmolLM2 lacks 21) is omitted, and nothing merges across the gap.
- No Unicode normalisation (the published Qwen2 tokenizer.json asks for NFC; GGUF files do not carry that).

For SentencePiece, see sentencepiece.py; a space is added before the text and after every special token,
unless the file says otherwise, and stays in the decoded text.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import tokenizers
from tokenizers import models

from guessahead.errors import ParameterError, PromptError, TokenizerError
from guessahead.text.pretokenizers import PRE_TOKENIZERS, PreTokenizer
from guessahead.text.sentencepiece import Pieces
from guessahead.text.vocabulary import KEY, Vocabulary


@dataclass(frozen=True, slots=True)
class Splitter:
    """The function that encodes plain text, and its settings.

    name: of the rule, for messages. rule: splitters with equal rules encode alike.
    adds_bos: BOS comes first unless the file says otherwise.
    adds_space: text that begins a prompt, or follows a special token, gets a space in front.
    """

    name: str
    rule: object
    encode: Callable[[str], list[int]]
    adds_bos: bool = False
    adds_space: bool = False


class Tokenizer:
    """Text to token ids and back.

    vocab_size: number of ids, padding included.
    bos_id: the beginning-of-sequence token, or None.
    adds_bos: whether a prompt begins with it.
    begins, ends: all ids with which a prompt begins and ends.
    eos_ids: every token that ends a generation (EOS, end of turn, end of message, ...), ascending.
    """

    def __init__(self, vocabulary: Vocabulary, splitter: Splitter) -> None:
        adds_bos = splitter.adds_bos if vocabulary.adds_bos is None else vocabulary.adds_bos
        self.vocab_size: Final = vocabulary.size
        self.bos_id: Final = vocabulary.bos_id
        begins = vocabulary.begins
        if begins is None:
            begins = (self.bos_id,) if adds_bos and self.bos_id is not None else ()
        self.begins: Final = begins
        self.ends: Final = vocabulary.ends
        self.adds_bos: Final = self.bos_id is not None and begins == (self.bos_id,)
        self.eos_ids: Final = vocabulary.eos_ids
        self._vocabulary: Final = vocabulary
        self._splitter: Final = splitter
        self._shown_bytes: Final[dict[int, bytes]] = {}

    @classmethod
    def from_gguf(cls, metadata: Mapping[str, Any], num_rows: int = 0) -> Tokenizer:
        """Build from the `tokenizer.ggml.*` entries of a GGUF file.

        num_rows: of the model's matrices; ids that have a row but no token are padding.
        Errors: TokenizerError, one line, for an unsupported kind and for damaged entries.
        """
        model = metadata.get(KEY + "model")
        if model is None:
            raise TokenizerError(f"the model file lacks {KEY}model: it contains no tokenizer")
        if model == "llama":
            vocabulary = Vocabulary.from_gguf(metadata, num_rows)
            return cls(vocabulary, _pieces(vocabulary, metadata.get(KEY + "add_space_prefix", True)))
        if model != "gpt2":
            known = "'gpt2' (byte-level BPE) and 'llama' (SentencePiece)"
            raise TokenizerError(f"tokenizer kind {model!r} is not supported (only {known})")
        pre = metadata.get(KEY + "pre")
        if not isinstance(pre, str):
            raise TokenizerError(f"the model file lacks {KEY}pre, the name of its pre-tokenizer")
        if pre not in PRE_TOKENIZERS:
            known = ", ".join(PRE_TOKENIZERS)
            raise TokenizerError(f"pre-tokenizer {pre!r} is not supported (supported: {known})")
        vocabulary = Vocabulary.from_gguf(metadata, num_rows)
        return cls(vocabulary, _bpe(vocabulary, pre))

    def encode(self, text: str, *, special: bool = False, bos: bool = True) -> list[int]:
        """The token ids of `text`; [] for "".

        special: the text of a control token (`<|im_start|>`) becomes that token, which a rendered chat
            template needs. False, for text of unknown origin: it is encoded like any other text. User-defined
            tokens (`<tool_call>`) are recognised in both cases, as in llama.cpp.
        bos: add the model's ids of a prompt's beginning (mostly BOS), unless the text begins with them, and
            of its end (mostly none). False for text that continues other text.
        Errors: PromptError if `text` contains a lone surrogate (a byte that was not valid UTF-8).
        """
        if not text:
            return []
        ids: list[int] = []
        space = " " if self._splitter.adds_space else ""
        for part in self._vocabulary.cut_special(checked_text(text), control=special):
            if isinstance(part, int):
                ids.append(part)
            else:  # two parts of text are never adjacent
                ids.extend(self._splitter.encode(space + part))
        return self._completed(ids) if bos else ids

    def encode_chat(self, text: str) -> list[int]:
        """The token ids of a rendered chat template, which contains most special tokens."""
        return self.encode(text, special=True)

    def _completed(self, ids: list[int]) -> list[int]:
        begins = [] if ids[: len(self.begins)] == list(self.begins) else self.begins
        return [*begins, *ids, *self.ends]

    def decode(self, ids: Iterable[int], *, skip_special: bool = True) -> str:
        """The text of `ids`; bytes that are not UTF-8 become U+FFFD.

        skip_special: omit control tokens; False writes their names.
        Errors: ParameterError for an id outside the vocabulary.
        """
        pieces = [self.token_bytes(token_id, special=not skip_special) for token_id in ids]
        return b"".join(pieces).decode("utf-8", errors="replace")

    def token_bytes(self, token_id: int, *, special: bool = False) -> bytes:
        """The exact bytes of one token. Control tokens: b"", or their name with `special`; padding: b"".

        Errors: ParameterError for an id outside the vocabulary.
        """
        if special:
            return self._vocabulary.token_bytes(self._checked_id(token_id), special=True)
        found = self._shown_bytes.get(token_id)
        if found is None:
            found = self._vocabulary.token_bytes(self._checked_id(token_id), special=False)
            self._shown_bytes[token_id] = found
        return found

    def cut_control(self, text: str) -> list[str | int]:
        """`text` as the ids of the control tokens whose names it contains, and the parts between them."""
        return self._vocabulary.cut_control(text)

    def token_text(self, token_id: int) -> str:
        """The name of a token as in the vocabulary (with byte stand-ins), for messages."""
        return self._vocabulary.name(self._checked_id(token_id))

    def check_same(self, other: Tokenizer) -> None:
        """Check that ids of `other` have the same meaning here; padding may differ in number and in name.

        Errors: TokenizerError with the first id that differs and both tokens, or the setting that differs.
        """
        mine, theirs = self._splitter, other._splitter
        if mine.rule != theirs.rule:
            raise TokenizerError(f"the two models split text differently: {mine.name!r} and {theirs.name!r}")
        _check_tokens(self._vocabulary, other._vocabulary)
        if self.eos_ids != other.eos_ids:
            ends = f"{list(self.eos_ids)} and {list(other.eos_ids)}"
            raise TokenizerError(f"the two models end a text with different tokens: ids {ends}")
        if self._beginning() != other._beginning():
            begins = f"{self._beginning()} and {other._beginning()}"
            raise TokenizerError(f"the two models begin a text differently: {begins}")

    def _beginning(self) -> str:
        return f"with token {self.bos_id}" if self.adds_bos else "without a BOS token"

    def _checked_id(self, token_id: int) -> int:
        try:
            value = operator.index(token_id)
        except TypeError:
            raise ParameterError(f"a token id must be an integer, not {token_id!r}") from None
        if not 0 <= value < self.vocab_size:
            raise ParameterError(f"token id {value} is outside the vocabulary of {self.vocab_size} tokens")
        return value


def _bpe(vocabulary: Vocabulary, pre: str) -> Splitter:
    """Byte-level BPE by the `tokenizers` library; its unknown token marks a byte without a token."""
    kind: PreTokenizer = PRE_TOKENIZERS[pre]
    ids = {token: token_id for token_id, token in enumerate(vocabulary.tokens)}
    unknown = "\ue000"  # not in any word: words consist of byte stand-ins
    while unknown in ids:
        unknown += "\ue000"
    unknown_id = ids[unknown] = len(ids)
    try:
        bpe = models.BPE(
            vocab=ids,
            merges=vocabulary.merges,
            unk_token=unknown,
            fuse_unk=False,
            ignore_merges=kind.ignore_merges,
        )
    except Exception as error:  # the Rust library raises plain Exception
        raise TokenizerError(f"the tokenizer's merges do not fit its vocabulary: {error}") from None
    built = tokenizers.Tokenizer(bpe)
    built.pre_tokenizer = kind.build()

    def encode(text: str) -> list[int]:
        return [i for i in built.encode(text, add_special_tokens=False).ids if i != unknown_id]

    return Splitter(pre, kind, encode, adds_bos=kind.adds_bos)


def _pieces(vocabulary: Vocabulary, adds_space: object) -> Splitter:
    if not isinstance(adds_space, bool):
        raise TokenizerError(f"{KEY}add_space_prefix is not true or false")
    name = "SentencePiece" if adds_space else "SentencePiece without a space in front"
    # With the same pieces but other scores, text would be cut differently.
    rule = (name, tuple(vocabulary.scores))
    encode = Pieces(vocabulary.tokens, vocabulary.scores).encode
    return Splitter(name, rule, encode, adds_bos=True, adds_space=adds_space)


def checked_text(text: str) -> str:
    """`text`, if it can be written as UTF-8. Errors: PromptError for a lone surrogate."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise PromptError(
            f"the text is not valid Unicode: character {error.start} is a lone surrogate "
            f"(U+{ord(text[error.start]):04X}); was it read as UTF-8?"
        ) from None
    return text


def _check_tokens(mine: Vocabulary, theirs: Vocabulary) -> None:
    """Raise for the first id that means different things in the two vocabularies."""
    differ = "the two models' tokenizers differ: id"
    for token_id, (token, other) in enumerate(zip(mine.tokens, theirs.tokens, strict=False)):
        if token != other and not (mine.is_padding(token_id) and theirs.is_padding(token_id)):
            raise TokenizerError(f"{differ} {token_id} is {token!r} and {other!r}")
    common = min(len(mine.tokens), len(theirs.tokens))
    longer = mine if len(mine.tokens) > common else theirs
    for token_id in range(common, len(longer.tokens)):
        if not longer.is_padding(token_id):
            name = longer.tokens[token_id]
            raise TokenizerError(f"{differ} {token_id} is {name!r} in one and missing in the other")

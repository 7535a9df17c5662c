"""Tokenizer and chat template of a model folder; the `tokenizers` library interprets tokenizer.json."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

import tokenizers

from guessahead.errors import ModelError, TokenizerError
from guessahead.files import decode, parse_json, read_bytes, read_json
from guessahead.text.chat_template import ChatTemplate
from guessahead.text.sentencepiece import SPACE
from guessahead.text.tokenizer import Splitter, Tokenizer, checked_text
from guessahead.text.vocabulary import BYTE, CONTROL, NORMAL, UNUSED, USER_DEFINED, Vocabulary

_MAX_ID: Final = 1 << 22  # real vocabularies end below 300,000
_Result = TypeVar("_Result")


def read_text_parts(folder: Path, num_rows: int = 0) -> tuple[Tokenizer, ChatTemplate]:
    """Tokenizer and chat template. num_rows: see `Vocabulary`.

    Errors: TokenizerError or ModelError, one line, for unusable files.
    """
    source = read_bytes(folder / "tokenizer.json")
    settings = read_json(folder / "tokenizer_config.json") if _has(folder, "tokenizer_config.json") else {}
    tokenizer = _FolderTokenizer(folder, source, settings, num_rows)
    return tokenizer, ChatTemplate(
        _template(folder, settings),
        bos_token=_token_text(settings.get("bos_token")) or "",
        eos_token=_token_text(settings.get("eos_token")) or "",
    )


class _FolderTokenizer(Tokenizer):
    """The Tokenizer that tokenizer.json describes, special tokens included."""

    def __init__(self, folder: Path, source: bytes, settings: Mapping[str, Any], num_rows: int) -> None:
        path = folder / "tokenizer.json"
        layout = parse_json(source, path)
        _refuse_word_marks(path, layout.get("model"))
        text = source.decode(errors="replace")
        built = _guarded(path, lambda: tokenizers.Tokenizer.from_str(text))
        plain = _guarded(path, lambda: tokenizers.Tokenizer.from_str(text))
        plain.encode_special_tokens = True
        for each in (built, plain):  # a tokenizer that was trained with length limits stores them in its file
            each.no_truncation()
            each.no_padding()
        self._with_special, self._plain = built, plain
        self._path: Final = path
        bos_id = self._id_of(settings.get("bos_token"))
        ends = _configured_ends(folder)
        if not ends and (eos_id := self._id_of(settings.get("eos_token"))) is not None:
            ends = {eos_id}
        tokens, types = self._table(layout)
        known = {token_id for token_id in ends if token_id < max(len(tokens), num_rows)}
        if ends and not known:  # if there are several, one that is not a token is harmless
            raise TokenizerError(f"{folder}: a token that ends a text has an id outside the vocabulary")
        begins, last = self._added()
        vocabulary = Vocabulary(
            tokens=tokens,
            types=types,
            merges=[],
            bos_id=bos_id,
            eos_ids=tuple(sorted(known)),
            adds_bos=None,
            begins=begins,
            ends=last,
            in_pieces=self._in_pieces(layout),
            num_rows=num_rows,
        )
        rule = hashlib.sha256(
            json.dumps({key: layout.get(key) for key in ("normalizer", "pre_tokenizer", "model")}).encode()
        ).hexdigest()
        super().__init__(
            vocabulary, Splitter("tokenizer.json", rule, lambda part: self.encode(part, bos=False))
        )

    def encode(self, text: str, *, special: bool = False, bos: bool = True) -> list[int]:
        if not text:
            return []
        engine = self._with_special if special else self._plain
        ids: list[int] = engine.encode(checked_text(text), add_special_tokens=False).ids
        return self._completed(ids) if bos else ids

    def encode_chat(self, text: str) -> list[int]:
        return self.encode(text, special=True, bos=False)  # as in transformers: the template has all of them

    def _fail(self, what: str) -> NoReturn:
        raise TokenizerError(f"{self._path}: {what}")

    def _added(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The ids that the post-processor adds before and after a text, whatever the flags say."""
        whole, bare = self._encode_one("a", True), self._encode_one("a", False)
        for start in range(len(whole) - len(bare) + 1):
            if whole[start : start + len(bare)] == bare:
                return tuple(whole[:start]), tuple(whole[start + len(bare) :])
        self._fail("its post-processor changes the text itself, which is not supported")

    def _encode_one(self, text: str, template: bool) -> list[int]:
        ids: list[int] = self._with_special.encode(text, add_special_tokens=template).ids
        return ids

    def _id_of(self, token: object) -> int | None:
        name = _token_text(token)
        if name is None:
            return None
        found = _guarded(self._path, lambda: self._with_special.token_to_id(name))
        return None if found is None else int(found)

    def _table(self, layout: Mapping[str, Any]) -> tuple[list[str], list[int]]:
        """Names and types by id; ids without a token are padding."""
        ids: dict[str, int] = self._with_special.get_vocab(with_added_tokens=True)
        if not ids or max(ids.values()) >= _MAX_ID:
            self._fail(f"its vocabulary is empty, or has ids above {_MAX_ID}")
        size = max(ids.values()) + 1
        tokens = [f"[PAD{i}]" for i in range(size)]
        types = [UNUSED] * size
        falls_back = bool(layout.get("model", {}).get("byte_fallback"))
        for name, token_id in ids.items():
            is_byte = falls_back and len(name) == 6 and name.startswith("<0x") and name.endswith(">")
            tokens[token_id], types[token_id] = name, BYTE if is_byte else NORMAL
        for token_id, added in self._with_special.get_added_tokens_decoder().items():
            types[token_id] = CONTROL if added.special else USER_DEFINED
        return tokens, types

    def _in_pieces(self, layout: Mapping[str, Any]) -> bool:
        """Whether tokens are text with U+2581 for the space (else they are in stand-ins of bytes)."""
        kind = (layout.get("model") or {}).get("type", "BPE")
        if kind != "BPE":
            self._fail(f"tokenizers of the kind {str(kind)[:40]!r} are not supported (only 'BPE')")
        decoder = json.dumps(layout.get("decoder"), ensure_ascii=False)
        if '"ByteLevel"' in decoder:
            return False
        if SPACE in decoder or '"Metaspace"' in decoder:
            return True
        self._fail("its decoder is neither byte-level nor SentencePiece's, which is not supported")


def _refuse_word_marks(path: Path, model: object) -> None:
    """Refuse word marks as in BERT: no supported model has them, and the library may panic."""
    for key in ("continuing_subword_prefix", "end_of_word_suffix"):
        if isinstance(model, dict) and model.get(key):
            raise TokenizerError(f"{path}: {key} {str(model[key])[:40]!r} is not supported")


def _guarded(path: Path, call: Callable[[], _Result]) -> _Result:
    try:
        return call()
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:  # the Rust library raises plain Exception, or panics (a BaseException)
        what = " ".join(str(error).split())[:200]
        raise TokenizerError(f"{path}: damaged, or of an unknown kind: {what}") from None


def _configured_ends(folder: Path) -> set[int]:
    """The ids in eos_token_id of generation_config.json; if it has none, of config.json."""
    for name in ("generation_config.json", "config.json"):
        if not _has(folder, name):
            continue
        found: set[int] = set()
        value = read_json(folder / name).get("eos_token_id")
        for token_id in value if isinstance(value, list) else [value]:
            if token_id is None:
                continue
            if type(token_id) is not int or token_id < 0:
                raise TokenizerError(f"{folder / name}: eos_token_id is not an id or a list of ids")
            found.add(token_id)
        if found:
            return found
    return set()


def _template(folder: Path, settings: Mapping[str, Any]) -> str | None:
    if _has(folder, "chat_template.jinja"):
        source = read_bytes(folder / "chat_template.jinja")
        try:
            return decode(source)
        except UnicodeDecodeError:
            raise ModelError(f"{folder / 'chat_template.jinja'}: not a text in UTF-8") from None
    value = settings.get("chat_template")
    if isinstance(value, list):  # several, by name
        named = [each for each in value if isinstance(each, dict) and each.get("name") == "default"]
        value = named[0].get("template") if named else None
    if value is not None and not isinstance(value, str):
        raise ModelError(f"{folder / 'tokenizer_config.json'}: chat_template is not a text")
    return value


def _token_text(token: object) -> str | None:
    """The text of a token in tokenizer_config.json: a string, or an object with its content."""
    text = token.get("content") if isinstance(token, dict) else token
    return text if isinstance(text, str) else None


def _has(folder: Path, name: str) -> bool:
    return (folder / name).exists()

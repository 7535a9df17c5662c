"""The pre-tokenizers of byte-level BPE, by the value of `tokenizer.ggml.pre`.

Each is one or several patterns, applied one after the other to the parts of the previous one. Each was
compared with llama.cpp on the strings of the tests; a name that is not in the table is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tokenizers import Regex, pre_tokenizers

# (?i:...) of the published files is written out: under case folding it would also match U+017F, which
# llama.cpp does not.
_CONTRACTIONS: Final = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
_ENDS: Final = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_WORDS: Final = _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s|" + _ENDS  # %s: digits of a word
_GPT2: Final = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
# Words are cut between small and capital letters, with llama.cpp's approximation of the published classes:
# any character but an ASCII capital counts as small, and vice versa.
_UPPER, _LOWER = r"(?:(?=\p{L})[^a-z])", r"(?:(?=\p{L})[^A-Z])"
_CASED: Final = (
    r"[^\r\n\p{L}\p{N}]?" + _UPPER + "*" + _LOWER + "+%s"
    r"|[^\r\n\p{L}\p{N}]?" + _UPPER + "+" + _LOWER + "*%s"
    r"|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)  # %s: what may follow a word, twice; digits of a word


@dataclass(frozen=True, slots=True)
class PreTokenizer:
    """The patterns that cut text into words, and further settings of one name.

    patterns: applied one after the other; text between matches becomes one word (or several).
    ignore_merges: a word that is itself a token is kept whole, regardless of the merges.
    adds_bos: BOS comes first unless the file says otherwise.
    """

    patterns: tuple[str, ...]
    ignore_merges: bool = False
    adds_bos: bool = False

    def build(self) -> Any:
        """The `tokenizers` pre-tokenizer: text -> words of byte stand-ins."""
        cuts = [pre_tokenizers.Split(Regex(pattern), behavior="isolated") for pattern in self.patterns]
        return pre_tokenizers.Sequence(
            [*cuts, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
        )


_LLAMA3: Final = PreTokenizer((_WORDS % "{1,3}",), ignore_merges=True, adds_bos=True)
_THREES: Final = PreTokenizer((_WORDS % "{1,3}",))
_GPT: Final = PreTokenizer((_GPT2,))
_DIGITS: Final = PreTokenizer((r"\p{N}", _GPT2))
_QWEN2: Final = PreTokenizer((_WORDS % "",))
_GPT4O: Final = PreTokenizer((_CASED % (_CONTRACTIONS + "?", _CONTRACTIONS + "?", "{1,3}"),))

PRE_TOKENIZERS: Final[Mapping[str, PreTokenizer]] = {
    "smollm": _DIGITS,
    "starcoder": _DIGITS,
    "refact": _DIGITS,
    "command-r": _DIGITS,
    "codeshell": _DIGITS,
    "exaone": _DIGITS,
    "qwen2": _QWEN2,
    "stablelm2": _QWEN2,
    "deepseek-r1-qwen": _QWEN2,
    "qwen35": PreTokenizer(
        (
            _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
            r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        )
    ),
    "llama-bpe": _LLAMA3,
    "llama3": _LLAMA3,
    "llama-v3": _LLAMA3,
    "dbrx": _THREES,
    "smaug-bpe": _THREES,
    "chatglm-bpe": _THREES,
    "gpt-2": _GPT,
    "phi-2": _GPT,
    "olmo": _GPT,
    "mpt": _GPT,
    "jais": _GPT,
    "default": PreTokenizer((r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]")),
    "falcon": PreTokenizer((r"[\p{P}\$\+<=>\^~\|`]+", _GPT2, "[0-9][0-9][0-9]")),
    "tekken": PreTokenizer((_CASED % ("", "", ""),), ignore_merges=True, adds_bos=True),
    "gpt-4o": _GPT4O,
    "llama4": _GPT4O,
    "deepseek-v3": PreTokenizer(
        (
            r"\p{N}{1,3}",
            "[一-龥぀-ゟ゠-ヿ]+",
            r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
            r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        )
    ),
}

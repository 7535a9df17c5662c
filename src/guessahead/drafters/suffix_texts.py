"""Texts beside the running one for the `suffix` drafter: finished outputs of this process, and files."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from guessahead.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from guessahead._native import SuffixAutomaton
    from guessahead.protocols import Engine
    from guessahead.text.tokenizer import Tokenizer

# Bytes of a corpus: its automaton takes about 100 bytes a token, and half a microsecond to build.
MAX_CORPUS_BYTES: Final = 16 << 20

# In how many new ways, in occurrences, a match of n tokens goes on for each way it went on before: 3 / n.
# The exponent and the factor are those with which replaying SmolLM2's answers to data/workload.jsonl is
# fastest, of those tried (docs/log.md). Counted: a match of 1 that went on in one way once does so again in
# 35 % of all cases, of 2 in 50 %, of 3 and 4 in 69 %, of 6 in 82 %, of 16 in 90 %, of 32 in 99 %.
NOVELTY: Final = (3.0, *(3.0 / length for length in range(1, 64)))


def _automaton() -> SuffixAutomaton:
    """An empty automaton. The compiled module is needed only from here on."""
    from guessahead._native import SuffixAutomaton

    return SuffixAutomaton()


class Shelf:
    """Finished outputs, the least recent ones dropped.

    Two automata of at most half the tokens each: a full one becomes the older one, and replaces that. An
    output that is given again is added again, so what keeps coming stays.

    Other threads may read an automaton while `add` appends to it: each call of it holds the GIL throughout.
    The lock is for `add` itself, which is several calls.
    """

    def __init__(self, max_tokens: int) -> None:
        self._max_tokens = max_tokens
        self._older, self._newer = _automaton(), _automaton()
        self._num_texts = 0
        self._lock = Lock()

    def automata(self) -> list[SuffixAutomaton]:
        """The automata that hold anything."""
        return [each for each in (self._newer, self._older) if each.num_tokens]

    def add(self, output: Sequence[int]) -> None:
        """Keep a finished output (its last half of max_tokens, if it is longer)."""
        room = self._max_tokens // 2
        if room < 2 or not output:
            return
        with self._lock:
            kept = list(output[-(room - 1) :])
            if self._newer.num_tokens + len(kept) + 1 > room:
                self._older, self._newer = self._newer, _automaton()
            self._num_texts += 1
            self._newer.extend([*kept, -1 - self._num_texts])


_shelves: WeakKeyDictionary[Engine, Shelf] = WeakKeyDictionary()


def shelf(engine: Engine, max_tokens: int) -> Shelf:
    """The outputs of an engine, kept as long as it is. Another max_tokens begins anew."""
    if max_tokens == 0:
        return Shelf(0)
    found = _shelves.get(engine)
    if found is None or found._max_tokens != max_tokens:
        found = _shelves[engine] = Shelf(max_tokens)
    return found


def corpus(path: str, tokenizer: Tokenizer | None) -> SuffixAutomaton:
    """The texts of a file, or of all files below a folder; read once per process and state of the files.

    Raises ParameterError where nothing can be read, or too much.
    """
    if tokenizer is None:
        raise ParameterError("a corpus needs the model's tokenizer, and there is none here")
    root = Path(path).expanduser()
    try:
        files = (
            [root]
            if root.is_file()
            else sorted(file for file in root.rglob("*") if file.is_file() and not _hidden(file, root))
        )
        facts = tuple((str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files)
    except OSError as error:
        raise ParameterError(f"the corpus {path!r} cannot be read: {error.strerror}") from None
    if not files:
        raise ParameterError(f"the corpus {path!r} is neither a file nor a folder with files")
    if sum(size for _, size, _ in facts) > MAX_CORPUS_BYTES:
        raise ParameterError(
            f"the corpus {path!r} has more than {MAX_CORPUS_BYTES >> 20} MiB: name a smaller folder"
        )
    return _read(facts, tokenizer)


def _hidden(file: Path, root: Path) -> bool:
    return any(part.startswith(".") for part in file.relative_to(root).parts)


@lru_cache(maxsize=2)
def _read(facts: tuple[tuple[str, int, int], ...], tokenizer: Tokenizer) -> SuffixAutomaton:
    automaton = _automaton()
    for number, (name, _, _) in enumerate(facts):
        try:
            text = Path(name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # no text: an image, an archive
        except OSError as error:
            raise ParameterError(f"the corpus file {name!r} cannot be read: {error.strerror}") from None
        automaton.extend([*tokenizer.encode(text), -2 - number])
    if automaton.num_tokens == 0:
        raise ParameterError("the corpus has no text files")
    return automaton

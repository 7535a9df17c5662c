"""Further texts for the `suffix` drafter: finished outputs of this process, and files."""

from __future__ import annotations

from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from guessahead.errors import ParameterError
from guessahead.files import read_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from guessahead._native import SuffixAutomaton
    from guessahead.protocols import Engine
    from guessahead.text.tokenizer import Tokenizer

# Bytes of a corpus: its automaton takes about 100 bytes a token, and half a microsecond to build.
MAX_CORPUS_BYTES: Final = 16 << 20

# The count added for unseen continuations of a match of n tokens, per seen continuation: 3 / n. Exponent and
# factor gave the fastest replay of SmolLM2's answers to data/workload.jsonl, of those tried (docs/log.md).
# Measured: a match with one earlier occurrence continues in the same way in 35 % of all cases for n = 1, in
# 50 % for 2, 69 % for 3 and 4, 82 % for 6, 90 % for 16, 99 % for 32.
NOVELTY: Final = (3.0, *(3.0 / length for length in range(1, 64)))


def _automaton() -> SuffixAutomaton:
    """An empty automaton. The compiled module is needed only from here on."""
    from guessahead._native import SuffixAutomaton

    return SuffixAutomaton()


class Shelf:
    """Finished outputs; the oldest ones are dropped.

    Two automata of at most half the tokens each: when the newer one is full, it replaces the older one. A
    repeated output is added again, so frequent outputs stay.

    Other threads may read an automaton, or append to it, while `add` appends to it, since each call of it
    holds the GIL throughout. There is no lock: one that another thread holds would stay locked in the child
    of a fork.
    """

    def __init__(self, max_tokens: int) -> None:
        self._max_tokens = max_tokens
        self._both = _automaton(), _automaton()  # the newer one, the older one
        self._numbers = count(1)

    def automata(self) -> list[SuffixAutomaton]:
        """The automata that are not empty."""
        return [each for each in self._both if each.num_tokens]

    def add(self, output: Sequence[int]) -> None:
        """Keep a finished output (its last half of max_tokens, if it is longer)."""
        room = self._max_tokens // 2
        if room < 2 or not output:
            return
        kept = list(output[-(room - 1) :])
        newer, _ = self._both
        if newer.num_tokens + len(kept) + 1 > room:
            self._both = _automaton(), newer
            newer, _ = self._both
        newer.extend([*kept, -1 - next(self._numbers)])


_shelves: WeakKeyDictionary[Engine, Shelf] = WeakKeyDictionary()


def shelf(engine: Engine, max_tokens: int) -> Shelf:
    """The shelf of an engine, kept as long as the engine. Another max_tokens starts an empty one."""
    if max_tokens == 0:
        return Shelf(0)
    found = _shelves.get(engine)
    if found is None or found._max_tokens != max_tokens:
        found = _shelves[engine] = Shelf(max_tokens)
    return found


def corpus(path: str, tokenizer: Tokenizer | None) -> SuffixAutomaton:
    """The texts of a file, or of all files below a folder; read once per process and state of the files.

    Raises ParameterError if there is nothing to read, or too much.
    """
    if tokenizer is None:
        raise ParameterError("a corpus needs the model's tokenizer, which is missing")
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
            text = read_text(Path(name))
        except UnicodeDecodeError:
            continue  # not text: an image, an archive
        except OSError as error:
            raise ParameterError(f"the corpus file {name!r} cannot be read: {error.strerror}") from None
        automaton.extend([*tokenizer.encode(text), -2 - number])
    if automaton.num_tokens == 0:
        raise ParameterError("the corpus has no text files")
    return automaton

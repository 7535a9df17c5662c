"""The settings that `guessahead tune` found, kept by model and machine, and taken as defaults afterwards.

One JSON file: $GUESSAHEAD_TUNED, or tuned.json in the user cache (which GUESSAHEAD_CACHE moves). It only
decides how fast a text comes out. A file that cannot be read counts as empty.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final

from guessahead.engines.machine import cpu_model, package_version, usable_cores
from guessahead.errors import ModelError
from guessahead.files import cache_dir, read_text, write_whole

FILE_VARIABLE: Final = "GUESSAHEAD_TUNED"


@dataclass(frozen=True, slots=True)
class Tuned:
    """The best setting for one model on one machine.

    drafter: its name ("none" where guessing does not pay). gamma: its best fixed number of guesses.
    max_draft: most guesses of a step that can pay here, even if all are right. threads: worker threads.
    The rest is what it was derived from: alpha, tau and speed-up expected, costs c and v (rows -> v), tokens
    per second of plain decoding, date (ISO), version of guessahead.
    """

    drafter: str
    gamma: int
    max_draft: int
    threads: int
    alpha: float | None
    tau: float
    speedup: float
    c: float
    v: Mapping[str, float]
    plain_tokens_per_second: float
    date: str
    version: str


def path() -> Path:
    """The file."""
    named = os.environ.get(FILE_VARIABLE)
    return Path(named) if named else cache_dir() / "tuned.json"


def key(model: str, draft_model: str | None = None) -> str:
    """What a setting is kept under: both models (catalogue names, or absolute paths) and the machine."""
    names = " + ".join(name for name in (model, draft_model) if name is not None)
    return f"{names} on {cpu_model()}, {usable_cores()} cores"


def load(model: str, draft_model: str | None = None) -> Tuned | None:
    """The setting for these models on this machine; None if there is none of this version of guessahead."""
    entry = _entries().get(key(model, draft_model))
    names = {field.name for field in fields(Tuned)}
    if not isinstance(entry, dict) or set(entry) != names:
        return None
    found = Tuned(**entry)
    counts = (found.threads, found.max_draft)
    sound = isinstance(found.drafter, str) and all(isinstance(n, int) and n > 0 for n in counts)
    return found if sound and found.version == package_version() else None


def save(model: str, draft_model: str | None, setting: Tuned) -> Path:
    """Keep a setting; returns the file. Raises ModelError where it cannot be written."""
    _write(_entries() | {key(model, draft_model): asdict(setting)})
    return path()


def forget(model: str, draft_model: str | None = None) -> bool:
    """Remove the setting; whether there was one."""
    entries = _entries()
    found = entries.pop(key(model, draft_model), None) is not None
    if found:
        _write(entries)
    return found


def _entries() -> dict[str, Any]:
    try:
        entries = json.loads(read_text(path()))
    except (OSError, ValueError):
        return {}
    return entries if isinstance(entries, dict) else {}


def _write(entries: Mapping[str, Any]) -> None:
    target = path()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(target, json.dumps(entries, indent=1) + "\n")
    except OSError as error:
        raise ModelError(f"{target} cannot be written: {error.strerror or error}") from error

"""Pass costs of an engine: shared by its generations in this process, and kept on disk for the next one.

A missing, damaged or unwritable file never matters: the costs are measured again within some passes.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from guessahead.controller.pass_costs import PassCosts
from guessahead.files import cache_dir, write_whole

if TYPE_CHECKING:
    from guessahead.protocols import Engine

# Passes after which a process writes what it learned, and after as many again each time it has doubled.
FIRST_WRITE: Final = 128

_shared: WeakKeyDictionary[Engine, PassCosts] = WeakKeyDictionary()
_written: WeakKeyDictionary[Engine, int] = WeakKeyDictionary()


def costs_of(engine: Engine) -> PassCosts:
    """What is known of this engine's passes: from this process, or from an earlier one."""
    costs = _shared.get(engine)
    if costs is None:
        costs = _shared[engine] = _read(engine) or PassCosts(engine.info.max_rows)
    return costs


def keep(engine: Engine) -> None:
    """Write the costs down if much was learned since the last time. Costs nothing otherwise."""
    costs, path = _shared.get(engine), _path(engine)
    if costs is None or path is None or costs.num_measured < 2 * _written.get(engine, FIRST_WRITE // 2):
        return
    _written[engine] = costs.num_measured
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(costs.to_json()))


def _read(engine: Engine) -> PassCosts | None:
    path = _path(engine)
    if path is None:
        return None
    try:
        return PassCosts.from_json(json.loads(path.read_text(encoding="utf-8")), engine.info.max_rows)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _path(engine: Engine) -> Path | None:
    """The engine's file; None for engines that do not say what their costs depend on (`cost_key`)."""
    info = engine.info
    if not info.cost_key:
        return None
    try:
        release = version("guessahead")
    except PackageNotFoundError:
        release = ""
    identity = "\0".join((info.cost_key, info.name, info.architecture, str(info.bytes_per_pass), release))
    digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
    return cache_dir() / "costs" / f"{digest}.json"

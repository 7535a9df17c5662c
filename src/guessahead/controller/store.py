"""Pass costs of an engine: shared by its generations in this process, and kept on disk for the next one.

A missing, damaged or unwritable file never matters: the costs are measured again.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from guessahead.controller.pass_costs import LearnedPassCosts
from guessahead.controller.pass_curve import LOAD_SECONDS, PassCurve, measure_passes
from guessahead.engines.machine import cpu_model, package_version
from guessahead.files import cache_dir, write_whole

if TYPE_CHECKING:
    from guessahead.protocols import Engine

# What a process learned is written after so many passes.
WRITE_PASSES: Final = 128

_shared: WeakKeyDictionary[Engine, LearnedPassCosts] = WeakKeyDictionary()


def costs_of(engine: Engine) -> LearnedPassCosts:
    """What is known of this engine's passes: from this process, from an earlier one, or measured now.

    Engines whose times are not worth keeping (`EngineInfo.cost_key`) are not measured.
    """
    if engine not in _shared:
        info, curve = engine.info, _read(engine)
        if curve is None and info.cost_key:
            curve = measure_passes(engine, max_seconds=LOAD_SECONDS)
            _write(engine, curve)
        _shared[engine] = LearnedPassCosts(info.max_rows, None if curve is None or curve.noisy else curve)
    return _shared[engine]


def keep(engine: Engine) -> None:
    """Write the costs down if much was learned since the last time. Costs nothing otherwise."""
    costs = _shared.get(engine)
    if costs is not None and costs.num_learned >= WRITE_PASSES:
        costs.num_learned = 0
        _write(engine, costs.curve())


def _write(engine: Engine, curve: PassCurve) -> None:
    path = _path(engine)
    if path is not None and not curve.noisy:
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, json.dumps(curve.seconds))


def _read(engine: Engine) -> PassCurve | None:
    path = _path(engine)
    try:
        data = json.loads(path.read_text(encoding="utf-8")) if path is not None else {}
        seconds = {int(rows): float(taken) for rows, taken in data.items()}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return None
    sound = all(1e-9 < taken < 1e6 for taken in seconds.values()) and min(seconds, default=0) == 1
    return PassCurve(seconds) if sound and max(seconds) <= engine.info.max_rows else None


def _path(engine: Engine) -> Path | None:
    """The engine's file; None for engines that do not say what their costs depend on."""
    info = engine.info
    if not info.cost_key:
        return None
    model = (info.name, info.architecture, str(info.bytes_per_pass))
    identity = "\0".join((*model, info.cost_key, cpu_model(), package_version()))
    return cache_dir() / "costs" / f"{hashlib.sha256(identity.encode()).hexdigest()[:16]}.json"

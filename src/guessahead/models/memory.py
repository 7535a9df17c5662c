"""The check that a model fits: its memory needs against the memory that this process may use."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from guessahead.engines import control_groups
from guessahead.errors import ModelError

if TYPE_CHECKING:
    from guessahead.engines.native.needs import Needs

try:
    import resource
except ImportError:  # Windows has no such limits
    resource = None  # type: ignore[assignment]

_MEMINFO: Final = Path("/proc/meminfo")


def check(needs: Needs, path: Path) -> None:
    """Raise ModelError, in one line, if loading would take more memory than is available."""
    free = available()
    if free is not None and needs.to_load > free:
        raise ModelError(
            f"{path}: loading takes {shown(needs.to_load)} of memory (weights {shown(needs.weights)}, "
            f"buffers {shown(needs.buffers)}), but only {shown(free)} are free; use a smaller model"
        )
    room = address_space()
    if room is not None and needs.weights * needs.streams + needs.buffers > room:
        wanted = shown(needs.weights * needs.streams + needs.buffers)
        raise ModelError(
            f"{path}: loading takes {wanted} of address space, but the limit of this process (ulimit -v) "
            f"leaves {shown(room)}; raise it, or use fewer threads"
        )


def available() -> int | None:
    """Bytes of memory that this process can still use; None if unknown.

    File caches count as free. The limit is that of the machine, or of the control group if that is less.
    """
    found = [each for each in (_machine(), control_groups.memory_left()) if each is not None]
    return min(found) if found else None


def address_space() -> int | None:
    """Bytes left below the limit of this process's address space; None without a limit."""
    if resource is None:
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return None
    used = 0
    with contextlib.suppress(OSError, ValueError):
        used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    return max(0, limit - used)


def shown(num_bytes: int) -> str:
    """A size as text: 1.5 GB, 93 MB, 12 kB."""
    for unit, size in (("GB", 1e9), ("MB", 1e6)):
        if num_bytes >= size:
            return (
                f"{num_bytes / size:.3g} {unit}"
                if num_bytes < 1000 * size
                else f"{num_bytes / size:.0f} {unit}"
            )
    return f"{num_bytes / 1e3:.3g} kB"


def _machine() -> int | None:
    with contextlib.suppress(OSError, ValueError):
        for line in _MEMINFO.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None

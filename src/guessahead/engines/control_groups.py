"""Limits that the system sets for groups of processes (containers): control groups, version 1 and 2.

Files: https://docs.kernel.org/admin-guide/cgroup-v2.html, and cgroup-v1/ there.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

_PROCESS: Final = Path("/proc/self")


def cpu_quota() -> float | None:
    """Processors' worth of time that the groups of this process may use; None without a limit."""
    quotas = []
    for folder in _folders("cpu"):
        with contextlib.suppress(OSError, ValueError, ZeroDivisionError):
            if (folder / "cpu.max").exists():
                quota, period = (folder / "cpu.max").read_text().split()
            else:
                quota = (folder / "cpu.cfs_quota_us").read_text()
                period = (folder / "cpu.cfs_period_us").read_text()
            if quota != "max" and int(quota) > 0:
                quotas.append(int(quota) / int(period))
    return min(quotas, default=None)


def memory_left() -> int | None:
    """Bytes of memory that the groups of this process leave; None without a limit. File caches are free."""
    found = []
    for folder in _folders("memory"):
        with contextlib.suppress(OSError, ValueError):
            if (folder / "memory.max").exists():
                limit, used, prefix = "memory.max", "memory.current", ""
            else:
                limit, used, prefix = "memory.limit_in_bytes", "memory.usage_in_bytes", "total_"
            most = (folder / limit).read_text().strip()
            if most == "max":
                continue
            facts = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
            cached = sum(int(facts.get(f"{prefix}{kind}_file", 0)) for kind in ("inactive", "active"))
            found.append(max(0, int(most) - int((folder / used).read_text()) + cached))
    return min(found, default=None)


def _folders(controller: str) -> Iterator[Path]:
    """The folders of this process's groups and of those above them, of version 2 and of a controller of 1."""
    with contextlib.suppress(OSError, ValueError):
        groups = {}
        for line in (_PROCESS / "cgroup").read_text().splitlines():
            number, controllers, group = line.split(":", 2)
            for name in controllers.split(",") if number != "0" else [""]:
                groups[name] = group
        for line in (_PROCESS / "mountinfo").read_text().splitlines():
            mount, _, source = line.partition(" - ")
            kind, _, options = source.split(" ", 2)
            root, place = map(_unescaped, mount.split(" ")[3:5])
            if kind == "cgroup2" and "" in groups:
                yield from _upwards(Path(place), root, groups[""])
            elif kind == "cgroup" and controller in options.split(",") and controller in groups:
                yield from _upwards(Path(place), root, groups[controller])


def _upwards(place: Path, root: str, group: str) -> Iterator[Path]:
    """From a group to the top of its mount, which shows the groups below `root`."""
    path = PurePosixPath(group)
    # A path of another name space is not visible here; what is visible begins at the top of the mount.
    is_visible = path.is_relative_to(root) and ".." not in path.parts
    below = path.relative_to(root) if is_visible else PurePosixPath()
    for part in (below, *below.parents):
        yield place / part


def _unescaped(path: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), path)

"""Facts about the machine on which measured times depend."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Final

from guessahead.engines import control_groups

UNKNOWN: Final = "unknown"


def usable_cores() -> int:
    """The number of cores that this process may use.

    A quota of time counts in whole cores: workers wait for each other, so one that is stopped stops all.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = control_groups.cpu_quota()
    return cores if quota is None else max(1, min(cores, int(quota)))


def cpu_model() -> str:
    """The name of the processor, as reported by the system."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    except OSError:
        pass
    return platform.processor() or UNKNOWN


def package_version(name: str = "guessahead") -> str:
    """The version of an installed package; "unknown" if it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return UNKNOWN

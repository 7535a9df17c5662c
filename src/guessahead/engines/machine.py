"""The machine that this process runs on: what measured times depend on, beside the model."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Final

UNKNOWN: Final = "unknown"


def usable_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cpu_model() -> str:
    """The processor's name, as the system tells it."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    except OSError:
        pass
    return platform.processor() or UNKNOWN


def package_version(name: str = "guessahead") -> str:
    """The version of an installed package; "unknown" where it runs from a folder or is missing."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return UNKNOWN

"""Where a figure comes from: program, machine, time and arguments."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import guessahead

_PACKAGES: Final = ("numpy", "tokenizers")
_UNKNOWN: Final = "unknown"


def provenance(
    *, isa: str, threads: int, arguments: Sequence[str], packages: Sequence[str] = ()
) -> dict[str, Any]:
    """Ready for JSON; commit is None outside a git checkout (and ends in "+changes" if it was edited).

    isa: instruction set of the kernels. packages: further packages whose versions matter.
    """
    return {
        "version": package_version("guessahead"),
        "commit": _commit(Path(guessahead.__file__).parent),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {
            "cpu": cpu_model(),
            "num_cores": usable_cores(),
            "architecture": platform.machine(),
            "system": platform.platform(),
        },
        "isa": isa,
        "threads": threads,
        "arguments": list(arguments),
        "packages": {
            "python": platform.python_version(),
            **{name: package_version(name) for name in (*_PACKAGES, *packages)},
        },
    }


def usable_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def package_version(name: str) -> str:
    """The version of an installed package; "unknown" where it runs from a folder or is missing."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return _UNKNOWN


def command_line() -> list[str]:
    """The arguments of this process, without the path of the program."""
    return sys.argv[1:]


def cpu_model() -> str:
    """The processor's name, as the system tells it."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    except OSError:
        pass
    return platform.processor() or _UNKNOWN


def _commit(folder: Path) -> str | None:
    """The commit of the checkout that holds the package, if it is one of its own files."""
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None or not _git(folder, "ls-files", "__init__.py"):
        return None
    return f"{commit}+changes" if _git(folder, "status", "--porcelain", "--", ".") else commit


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None

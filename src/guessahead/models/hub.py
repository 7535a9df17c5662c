"""Fetching a model folder from the Hugging Face hub, into the cache that all of its libraries share."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final

from guessahead.errors import ModelError

_PROBE_SECONDS: Final = 3.0
_FILES: Final = [
    "*.safetensors",
    "*.safetensors.index.json",
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
]


def snapshot(name: str) -> Path:
    """The folder of the hub's model `name` ("org/model"), downloaded if need be; only the files we read.

    Where the hub does not answer within three seconds, a copy in the cache is taken as it is. Raises
    ModelError where there is none, or no such model.
    """
    from huggingface_hub import snapshot_download  # takes a third of a second

    answer = _ask(name)
    try:
        return Path(
            snapshot_download(
                name, allow_patterns=_FILES, ignore_patterns=["*/*"], local_files_only=answer is not None
            )
        )
    except Exception as error:  # its kinds vary with the version of the library
        reason = answer or " ".join(str(error).split())[:200]
        raise ModelError(
            f"{name!r} is neither a file nor in the cache, and could not be fetched from the hub: {reason}"
        ) from None


def _ask(name: str) -> str | None:
    """What keeps us from downloading; None: the hub has this model and answers."""
    result: list[str | None] = []

    def ask() -> None:
        from huggingface_hub import HfApi

        try:
            HfApi().model_info(name, timeout=_PROBE_SECONDS)
            result.append(None)
        except Exception as error:
            kind = type(error).__name__
            missing = kind in ("RepositoryNotFoundError", "HFValidationError")
            result.append("it has no model of this name" if missing else f"it is not reachable ({kind})")

    # A thread, because looking up a host name can take longer than any timeout one can set for it.
    thread = threading.Thread(target=ask, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:  # a limit on threads
        return f"it is not asked ({error})"
    thread.join(_PROBE_SECONDS)
    return result[0] if result else "it is not reachable"

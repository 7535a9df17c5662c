"""Hub ids without a hub: one line within a few seconds, and copies in the cache are found."""

from __future__ import annotations

import time
from pathlib import Path

import huggingface_hub
import pytest

from guessahead.errors import ModelError
from guessahead.models import hub
from guessahead.models.hub import snapshot
from guessahead.models.load import resolve


class Nobody:
    """A hub that never answers."""

    def model_info(self, name: str, timeout: float) -> None:
        time.sleep(60)


def test_no_network_is_one_line_soon(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(huggingface_hub, "HfApi", Nobody)
    monkeypatch.setattr(hub, "_PROBE_SECONDS", 0.1)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    started = time.monotonic()
    with pytest.raises(
        ModelError, match=r"'some/model' is neither a file nor in the cache.*not reachable"
    ) as caught:
        resolve("some/model")
    assert time.monotonic() - started < 30
    assert "\n" not in str(caught.value)


def test_what_is_asked_of_the_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = {}

    class Hub:
        def model_info(self, name: str, timeout: float) -> None:
            pass

    def download(name: str, **options: object) -> str:
        asked.update(options, name=name)
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "HfApi", Hub)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    assert snapshot("some/model") == tmp_path
    assert asked["name"] == "some/model"
    assert asked["local_files_only"] is False
    assert "*.safetensors" in asked["allow_patterns"]
    assert not {"*.bin", "*.pth", "*.pt"} & set(asked["allow_patterns"])  # pickles run code


def test_a_copy_in_the_cache_serves_without_a_network(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def download(name: str, **options: object) -> str:
        assert options["local_files_only"] is True
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "HfApi", Nobody)
    monkeypatch.setattr(hub, "_PROBE_SECONDS", 0.1)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    assert snapshot("some/model") == tmp_path

"""Files of weights are written whole, also by writers that put a file of their own in place of ours."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from guessahead.errors import ModelError
from guessahead.heads.files import whole

TENSORS = {"a": np.arange(8, dtype=np.float32)}


def save(path: Path) -> None:
    with whole(path) as unfinished:
        save_file(TENSORS, unfinished)


def test_the_mode_is_the_usual_one_or_is_kept(tmp_path: Path) -> None:
    path, plain = tmp_path / "model.safetensors", tmp_path / "plain"
    plain.touch()
    save(path)
    assert path.stat().st_mode == plain.stat().st_mode
    path.chmod(0o640)
    save(path)
    assert path.stat().st_mode & 0o777 == 0o640
    assert load_file(path)["a"].tolist() == TENSORS["a"].tolist()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["model.safetensors", "plain"]


def test_a_device_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.symlink_to("/dev/null")
    with pytest.raises(ModelError, match="cannot be written: not a regular file"):
        save(path)
    assert Path("/dev/null").is_char_device()


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be written: No such file or directory"):
        save(tmp_path / "none" / "model.safetensors")

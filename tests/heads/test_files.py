"""Heads on disk: what is written comes back, and whatever is not a head is refused in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import guessahead as ga
from guessahead.engines.native.head import NativeHead
from guessahead.errors import ModelError
from guessahead.heads.files import MATRICES, NORMS, HeadFiles
from tests.cli.conftest import one_line, run
from tests.support.tiny import NUM_TOKENS, tiny_gguf
from tests.support.tiny_head import tiny_head

WEIGHTS = "model.safetensors"
PROMPT = "the quick brown fox"


def refused(folder: Path, *words: str) -> None:
    with pytest.raises(ModelError) as caught:
        HeadFiles.load(folder)
    assert "\n" not in str(caught.value)
    for word in (str(folder), *words):
        assert word in str(caught.value)


def test_what_is_saved_comes_back(lm: ga.LanguageModel, folder: Path) -> None:
    saved = tiny_head(lm.runner.engine, "Q8_0", {"lm_head": "Q4_1", "fc": "F16"})  # type: ignore[arg-type]
    found = HeadFiles.load(folder)
    assert found.config == saved.config
    assert tuple(found.matrices) == MATRICES
    assert tuple(found.norms) == NORMS
    for name in MATRICES:
        assert found.matrices[name].tobytes() == saved.matrices[name].tobytes()
    for name in NORMS:
        assert found.norms[name].tobytes() == saved.norms[name].tobytes()
    assert found.draft_ids.tolist() == saved.draft_ids.tolist()
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", WEIGHTS]


def test_saving_again_replaces(lm: ga.LanguageModel, folder: Path) -> None:
    other = tiny_head(lm.runner.engine, "F32", seed=1)  # type: ignore[arg-type]
    other.save(folder)
    assert HeadFiles.load(folder).config == other.config


@pytest.mark.parametrize("name", ["config.json", WEIGHTS])
@pytest.mark.parametrize("damage", ["gone", "empty", "cut", "folder", "noise"])
def test_damaged_files(folder: Path, name: str, damage: str) -> None:
    path = folder / name
    data = path.read_bytes()
    path.unlink()
    if damage == "folder":
        path.mkdir()
    elif damage != "gone":
        noise = np.random.default_rng(0).bytes(len(data))
        path.write_bytes({"empty": b"", "cut": data[: len(data) // 2], "noise": noise}[damage])
    refused(folder, name)


@pytest.mark.parametrize("text", ["[]", "3", "null", '{"version": 2}', "{}", "[" * 100_000, "\\"])
def test_a_configuration_of_something_else(folder: Path, text: str) -> None:
    (folder / "config.json").write_text(text)
    refused(folder, "config.json", "configuration of a head")


MISSING = "missing"
SIZES = ("width", "ffn_width", "num_heads", "num_kv_heads", "head_dim", "vocab_size")
WRONG: list[tuple[str, Any, str]] = [
    *(
        (name, value, f"{name} must be from 1")
        for name in SIZES
        for value in (0, -1, 2.0, "64", None, 1 << 21)
    ),
    *((name, MISSING, "must hold") for name in ("fingerprint", "formats", "rope_base")),
    ("surplus", 1, "must hold"),
    *(("layers", value, "layers must be a list") for value in (None, 3, "01", [0, -1], [0, 1.0], [[0]])),
    *(("layers", value, "two layers or more") for value in ([], [1])),
    *(("norm_epsilon", value, "norm_epsilon must be above 0") for value in (0, -1e-5, 2, "x", float("nan"))),
    *(("rope_base", value, "rope_base must be above 0") for value in (0, -1, 1e13, None, float("inf"))),
    *(("formats", value, "formats must name") for value in (None, [], {}, dict.fromkeys(MATRICES, "Q9"))),
    ("formats", dict.fromkeys(MATRICES, "Q8_0") | {"fc": []}, "formats must name"),
    ("formats", dict.fromkeys(MATRICES, "Q8_0") | {"fc": 8}, "formats must name"),
    ("formats", dict.fromkeys(MATRICES, "Q8_0") | {"embed": "F32"}, "formats must name"),
    ("formats", dict.fromkeys(MATRICES, "Q4_K"), "columns, which Q4_K cannot store"),
    ("formats", dict.fromkeys(MATRICES, "Q4_0"), "tensor 'fc' is missing, or not U8"),
    ("width", 63, "impossible sizes"),
    ("head_dim", 12, "impossible sizes"),
    ("num_kv_heads", 3, "impossible sizes"),
    ("width", 128, "tensor 'input_layernorm' is missing, or not F32[128]"),
    ("vocab_size", 95, "tensor 'draft_ids' is missing, or not I32[95]"),
]


@pytest.mark.parametrize(("name", "value", "problem"), WRONG, ids=str)
def test_wrong_settings(folder: Path, name: str, value: Any, problem: str) -> None:
    path = folder / "config.json"
    config = json.loads(path.read_text())
    if value is MISSING:
        del config[name]
    else:
        config[name] = value
    path.write_text(json.dumps(config))
    refused(folder, problem)


def _descending(tensors: dict[str, Any]) -> None:
    tensors["draft_ids"] = tensors["draft_ids"][::-1].copy()


def _twice(tensors: dict[str, Any]) -> None:
    tensors["draft_ids"][5] = tensors["draft_ids"][4]


def _negative(tensors: dict[str, Any]) -> None:
    tensors["draft_ids"][0] = -1


def _far_apart(tensors: dict[str, Any]) -> None:
    """Their difference overflows."""
    tensors["draft_ids"][-2:] = (2**31 - 1, -(2**31))


def _infinite(tensors: dict[str, Any]) -> None:
    tensors["hidden_norm"][3] = np.inf


def _transposed(tensors: dict[str, Any]) -> None:
    tensors["fc"] = tensors["fc"].T.copy()


def _flat(tensors: dict[str, Any]) -> None:
    tensors["o_proj"] = tensors["o_proj"].reshape(-1)


def _signed(tensors: dict[str, Any]) -> None:
    tensors["up_proj"] = tensors["up_proj"].view(np.int8)


def _double(tensors: dict[str, Any]) -> None:
    tensors["norm"] = tensors["norm"].astype(np.float64)


def _long(tensors: dict[str, Any]) -> None:
    tensors["draft_ids"] = tensors["draft_ids"].astype(np.int64)


def _missing(tensors: dict[str, Any]) -> None:
    del tensors["lm_head"]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        *((change, "draft_ids must be ascending") for change in (_descending, _twice, _negative, _far_apart)),
        (_infinite, "a norm holds values that are not finite"),
        (_transposed, "tensor 'fc' is missing, or not U8[64, 256]"),
        (_flat, "tensor 'o_proj' is missing, or not U8["),
        (_signed, "tensor 'up_proj' is missing, or not U8["),
        (_double, "tensor 'norm' is missing, or not F32[64]"),
        (_long, "tensor 'draft_ids' is missing, or not I32[96]"),
        (_missing, "tensor 'lm_head' is missing"),
    ],
)
def test_wrong_tensors(folder: Path, change: Callable[[dict[str, Any]], None], problem: str) -> None:
    tensors = load_file(folder / WEIGHTS)
    change(tensors)
    save_file(tensors, folder / WEIGHTS)
    refused(folder, problem)


def test_elements_that_numpy_does_not_know(folder: Path) -> None:
    """bfloat16: as many bytes, half as large."""
    data = (folder / WEIGHTS).read_bytes()
    changed = data.replace(b'"dtype":"F32","shape":[64]', b'"dtype":"BF16","shape":[128]', 1)
    length = int.from_bytes(data[:8], "little") + len(changed) - len(data)
    (folder / WEIGHTS).write_bytes(length.to_bytes(8, "little") + changed[8:])
    refused(folder, "is missing, or not F32[64]")


def test_where_a_head_is_found(lm: ga.LanguageModel, folder: Path, cache: Path) -> None:
    assert lm.runner.engine.head() is None
    assert isinstance(lm.runner.engine.head(str(folder)), NativeHead)
    folder.rename(cache.parent / "moved")
    (cache / "heads").mkdir(parents=True)
    name = lm.runner.engine.head_host.fingerprint  # type: ignore[attr-defined]
    (cache.parent / "moved").rename(cache / "heads" / name)
    found = lm.runner.engine.head()
    assert found is not None
    assert found.layers == (0, 1)


def test_a_head_serves_every_version_of_its_model_and_no_other(tmp_path: Path, folder: Path) -> None:
    same = ga.load(tiny_gguf(tmp_path / "same.gguf", format="F16").path, threads=1)
    assert same.runner.engine.head(str(folder)) is not None
    other = ga.load(tiny_gguf(tmp_path / "other.gguf", seed=1).path, threads=1)
    with pytest.raises(ModelError, match="head: this head was made for another model"):
        other.runner.engine.head(str(folder))


def test_a_head_that_does_not_fit_is_refused(lm: ga.LanguageModel, folder: Path) -> None:
    files = HeadFiles.load(folder)
    ids = files.draft_ids.copy()
    ids[-1] = NUM_TOKENS
    replace(files, draft_ids=ids).save(folder)
    with pytest.raises(ModelError, match="another vocabulary"):
        lm.runner.engine.head(str(folder))
    replace(files, config=replace(files.config, layers=(0, 7))).save(folder)
    with pytest.raises(ModelError, match="target of other sizes"):
        lm.runner.engine.head(str(folder))


def test_the_command_line_refuses_in_one_line(tmp_path: Path, folder: Path) -> None:
    model = tiny_gguf(tmp_path / "m.gguf").path
    given = ("generate", "-m", str(model), "--threads", "1", "--drafter", "head", "--max-tokens", "4")
    result = run(*given, PROMPT)
    assert (result.exit_code, result.stdout) == (2, "")
    one_line(result.stderr, "this model has no draft head", "`guessahead train`")
    (folder / WEIGHTS).write_bytes(b"")
    damaged = (WEIGHTS, "not a safetensors file")
    for path, words in ((tmp_path / "nowhere", ("nowhere", "configuration of a head")), (folder, damaged)):
        result = run(*given, "-o", f"path={path}", PROMPT)
        assert (result.exit_code, result.stdout) == (2, "")
        one_line(result.stderr, *words)

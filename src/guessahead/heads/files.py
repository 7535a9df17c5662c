"""A head on disk: a folder with `config.json` and `model.safetensors`.

Matrices are stored as the kernels read them: uint8[rows, row bytes], in the blocks of the GGUF format that
`config.json` lists for each. Norms are float32, `draft_ids` int32: the target's id of each token of the head.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from importlib import resources
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, deserialize
from safetensors.numpy import save_file

from guessahead.checkpoints.gguf.types import GGMLType
from guessahead.errors import ModelError
from guessahead.files import cache_dir, map_file, replacing
from guessahead.types import Float32, Int32

VERSION: Final = 1
MATRICES: Final = (
    "fc",
    "q_proj",
    "k_proj",
    "v_proj",
    "o_proj",
    "gate_proj",
    "up_proj",
    "down_proj",
    "lm_head",
)
NORMS: Final = ("input_layernorm", "hidden_norm", "post_attention_layernorm", "norm")
_DTYPES: Final = {"U8": np.uint8, "F32": np.float32, "I32": np.int32}
_LIMIT: Final = 1 << 20  # of every size


@dataclass(frozen=True, slots=True)
class HeadConfig:
    """Sizes of a head, and its target.

    fingerprint: of the target (see `HeadHost`). layers: of the target whose hidden states are fused.
    rope_base: of the rotation, by halves. vocab_size: of the head. formats: GGUF format of each matrix.
    """

    fingerprint: str
    layers: tuple[int, ...]
    width: int
    ffn_width: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    norm_epsilon: float
    rope_base: float
    formats: Mapping[str, str]

    def shape(self, matrix: str) -> tuple[int, int]:
        """Outputs and inputs of a matrix."""
        width, queries, keys = self.width, self.num_heads * self.head_dim, self.num_kv_heads * self.head_dim
        return {
            "fc": (width, len(self.layers) * width),
            "q_proj": (queries, 2 * width),
            "k_proj": (keys, 2 * width),
            "v_proj": (keys, 2 * width),
            "o_proj": (width, queries),
            "gate_proj": (self.ffn_width, width),
            "up_proj": (self.ffn_width, width),
            "down_proj": (width, self.ffn_width),
            "lm_head": (self.vocab_size, width),
        }[matrix]


@dataclass(frozen=True, slots=True)
class HeadFiles:
    """The content of a head's files.

    matrices: uint8[rows * row bytes] of each, in its format. norms: float32[width] of each. draft_ids:
    int32[vocab_size], ascending.
    """

    config: HeadConfig
    matrices: Mapping[str, npt.NDArray[np.uint8]]
    norms: Mapping[str, Float32]
    draft_ids: Int32

    @classmethod
    def load(cls, folder: Path) -> HeadFiles:
        """Read a head. Raises ModelError, in one line, for anything else."""
        config = _read_config(folder / "config.json")
        path = folder / "model.safetensors"
        wanted: dict[str, tuple[str, tuple[int, ...]]] = {
            "draft_ids": ("I32", (config.vocab_size,)),
            **dict.fromkeys(NORMS, ("F32", (config.width,))),
        }
        for name in MATRICES:
            rows, columns = config.shape(name)
            kind = GGMLType[config.formats[name]]
            if columns % kind.block_size:
                raise ModelError(f"{path}: {name} has {columns} columns, which {kind.name} cannot store")
            wanted[name] = "U8", (rows, kind.row_bytes(columns))
        tensors = _read_tensors(path, wanted)
        ids = tensors["draft_ids"]
        if ids[0] < 0 or not np.all(ids[1:] > ids[:-1]):
            raise ModelError(f"{path}: draft_ids must be ascending token ids")
        if not all(np.isfinite(tensors[name]).all() for name in NORMS):
            raise ModelError(f"{path}: a norm holds values that are not finite")
        return cls(
            config,
            {name: tensors[name].reshape(-1) for name in MATRICES},
            {name: tensors[name] for name in NORMS},
            ids,
        )

    def save(self, folder: Path) -> None:
        """Write both files. Raises ModelError."""
        folder.mkdir(parents=True, exist_ok=True)
        tensors: dict[str, npt.NDArray[Any]] = {"draft_ids": self.draft_ids, **self.norms}
        for name, data in self.matrices.items():
            tensors[name] = data.reshape(self.config.shape(name)[0], -1)
        with whole(folder / "model.safetensors") as unfinished:
            save_file(tensors, unfinished)
        text = json.dumps({"version": VERSION, **asdict(self.config)}, indent=2)
        with whole(folder / "config.json") as unfinished:
            unfinished.write_text(text + "\n", "utf-8")


@contextlib.contextmanager
def whole(path: Path) -> Iterator[Path]:
    """As `files.replacing`, for the writers of weights, which replace what has the name that they are given.

    Raises ModelError if the file cannot be written.
    """
    if path.exists() and not path.is_file():
        raise ModelError(f"{path} cannot be written: not a regular file")
    try:
        with replacing(path) as unfinished:
            yield unfinished
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ModelError(f"{path} cannot be written: {reason}") from None


def heads_dir() -> Path:
    """The directory of trained heads; the folder of each has the fingerprint of its target as its name."""
    return cache_dir() / "heads"


def find(fingerprint: str) -> HeadFiles | None:
    """The head of a model: one that was trained on this machine, else one that ships with the package."""
    shipped = Path(str(resources.files("guessahead.data"))) / "heads"
    for place in (heads_dir(), shipped):
        folder = place / fingerprint
        if os.path.exists(folder / "config.json"):  # unlike Path.exists, also where nothing may be read
            return HeadFiles.load(folder)
    return None


def _read_tensors(
    path: Path, wanted: Mapping[str, tuple[str, tuple[int, ...]]]
) -> dict[str, npt.NDArray[Any]]:
    """wanted: element type and shape of each tensor."""
    parse: Callable[[bytes], list[tuple[str, dict[str, Any]]]] = deserialize
    try:
        with map_file(path, "safetensors", 8) as mapped:
            found = dict(parse(bytes(mapped)))
    except (SafetensorError, ValueError) as error:
        raise ModelError(f"{path}: not a file of weights ({error})") from None
    tensors = {}
    for name, (kind, shape) in wanted.items():
        part = found.get(name)
        if part is None or part["dtype"] != kind or tuple(part["shape"]) != shape:
            raise ModelError(f"{path}: tensor {name!r} is missing, or not {kind}{list(shape)}")
        tensors[name] = np.frombuffer(part["data"], _DTYPES[kind]).reshape(shape)
    return tensors


def _read_config(path: Path) -> HeadConfig:
    try:
        values = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path}: not the configuration of a head ({error})") from None
    if not isinstance(values, dict) or values.pop("version", None) != VERSION:
        raise ModelError(f"{path}: not the configuration of a head of version {VERSION}")
    known = {field.name for field in fields(HeadConfig)}
    if set(values) != known:
        raise ModelError(f"{path}: must hold {', '.join(sorted(known))}")
    for name in ("width", "ffn_width", "num_heads", "num_kv_heads", "head_dim", "vocab_size"):
        if not isinstance(values[name], int) or not 1 <= values[name] <= _LIMIT:
            raise ModelError(f"{path}: {name} must be from 1 to {_LIMIT}")
    layers = values["layers"]
    if not isinstance(layers, list) or not all(isinstance(each, int) and each >= 0 for each in layers):
        raise ModelError(f"{path}: layers must be a list of layer numbers")
    if len(layers) < 2:
        raise ModelError(f"{path}: layers must name two layers or more")
    for name, most in (("norm_epsilon", 1.0), ("rope_base", 1e12)):
        if not isinstance(values[name], int | float) or not 0 < values[name] <= most:
            raise ModelError(f"{path}: {name} must be above 0 and at most {most:g}")
    formats = values["formats"]
    if (
        not isinstance(formats, dict)
        or set(formats) != set(MATRICES)
        or not all(str(each) in GGMLType.__members__ for each in formats.values())
    ):
        raise ModelError(f"{path}: formats must name a GGUF format for each of {', '.join(MATRICES)}")
    if values["width"] % 32 or values["head_dim"] % 8 or values["num_heads"] % values["num_kv_heads"]:
        raise ModelError(f"{path}: impossible sizes")
    return HeadConfig(**{**values, "layers": tuple(layers)})

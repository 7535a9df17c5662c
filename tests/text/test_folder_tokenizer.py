"""What a folder's tokenizer puts before and behind a text, and which tokens end one."""

from __future__ import annotations

import itertools
import json
import warnings
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from guessahead.errors import TokenizerError
from guessahead.text.folder_tokenizer import read_text_parts

ALPHABET = sorted(pre_tokenizers.ByteLevel.alphabet())
SPECIAL = ("<s>", "</s>", "<|im_start|>")
IDS = {name: len(ALPHABET) + i for i, name in enumerate(SPECIAL)}
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}


def template(*names: str) -> dict[str, Any]:
    """A post-processor; "A" is the text."""
    single = [
        {"Sequence": {"id": "A", "type_id": 0}}
        if name == "A"
        else {"SpecialToken": {"id": name, "type_id": 0}}
        for name in names
    ]
    special = {name: {"id": name, "ids": [IDS[name]], "tokens": [name]} for name in names if name != "A"}
    pair = [*single, {"Sequence": {"id": "B", "type_id": 1}}]
    return {"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": special}


POST_PROCESSORS: dict[str, Any] = {
    "none": None,
    "bytes": BYTE_LEVEL,
    "bos": template("<s>", "A"),
    "eos": template("A", "</s>"),
    "both": template("<s>", "A", "</s>"),
    "two": template("<s>", "<|im_start|>", "A", "</s>", "</s>"),
    "other": template("<|im_start|>", "A"),
    "sequence": {"type": "Sequence", "processors": [BYTE_LEVEL, template("<s>", "A")]},
    "bert": {"type": "BertProcessing", "sep": ["</s>", IDS["</s>"]], "cls": ["<s>", IDS["<s>"]]},
}
CLASSES = (
    None,
    "PreTrainedTokenizerFast",
    "TokenizersBackend",
    "LlamaTokenizer",
    "LlamaTokenizerFast",
    "Qwen2TokenizerFast",
    "GPT2TokenizerFast",
)


def write(folder: Path, post_processor: object = None, **settings: Any) -> Path:
    built = tokenizers.Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(ALPHABET)}, merges=[]))
    built.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    built.decoder = decoders.ByteLevel()
    built.add_special_tokens(list(SPECIAL))
    layout = json.loads(built.to_str()) | {"post_processor": post_processor}
    folder.mkdir(exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(layout))
    found = {"bos_token": "<s>", "eos_token": "</s>", **settings}
    (folder / "tokenizer_config.json").write_text(json.dumps(found))
    (folder / "config.json").write_text(json.dumps({"model_type": "llama"}))
    return folder


@pytest.mark.reference
@pytest.mark.parametrize("name", POST_PROCESSORS)
def test_the_post_processor_is_right_whatever_flags_and_class(tmp_path: Path, name: str) -> None:
    transformers = pytest.importorskip("transformers")
    transformers.logging.set_verbosity_error()
    flags = list(itertools.product((None, True, False), repeat=2))
    for cls, (bos, eos) in itertools.product(CLASSES, flags):
        given = {"tokenizer_class": cls, "add_bos_token": bos, "add_eos_token": eos}
        settings = {key: value for key, value in given.items() if value is not None}
        folder = write(tmp_path / "folder", POST_PROCESSORS[name], **settings)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = transformers.AutoTokenizer.from_pretrained(folder)
        ours, _ = read_text_parts(folder)
        for text in ("ab c", "x\n", "a</s>b"):
            assert ours.encode(text, special=True) == theirs(text)["input_ids"], (given, text)
            chat = theirs(text, add_special_tokens=False)["input_ids"]
            assert ours.encode_chat(text) == chat == ours.encode(text, special=True, bos=False)


def test_what_a_prompt_begins_and_ends_with(tmp_path: Path) -> None:
    two, _ = read_text_parts(write(tmp_path / "two", POST_PROCESSORS["two"], add_bos_token=False))
    assert (two.begins, two.ends) == ((IDS["<s>"], IDS["<|im_start|>"]), (IDS["</s>"],) * 2)
    assert not two.adds_bos
    bos, _ = read_text_parts(write(tmp_path / "bos", POST_PROCESSORS["bos"], add_bos_token=False))
    assert bos.adds_bos
    a = ALPHABET.index("a")
    assert bos.encode("a") == bos.encode("<s>a", special=True) == [IDS["<s>"], a]  # not twice
    none, _ = read_text_parts(write(tmp_path / "none", None, add_bos_token=True))
    assert none.encode("a") == [a]


def test_limits_of_training_do_not_cut_prompts(tmp_path: Path) -> None:
    folder = write(tmp_path / "folder")
    layout = json.loads((folder / "tokenizer.json").read_text())
    layout["truncation"] = {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}
    layout["padding"] = {
        "strategy": {"Fixed": 8},
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "!",
    }
    (folder / "tokenizer.json").write_text(json.dumps(layout))
    found, _ = read_text_parts(folder)
    for special in (False, True):
        assert len(found.encode("abcdef", special=special)) == 6
        assert len(found.encode("ab", special=special)) == 2


@pytest.mark.parametrize(
    ("generation", "config", "token", "ends"),
    [
        ([257, 258], 256, "<s>", (257, 258)),
        (258, 256, "<s>", (258,)),
        (None, 256, "<s>", (256,)),
        (None, None, "<s>", (256,)),
        (None, None, "</s>", (257,)),
        (None, None, None, ()),
        ([257, 9999], None, None, (257,)),
        ([], 258, "</s>", (258,)),
    ],
)
def test_what_ends_a_text(
    tmp_path: Path, generation: object, config: object, token: str | None, ends: tuple[int, ...]
) -> None:
    """generation_config.json, else config.json, else the tokenizer; not every token with a usual name."""
    folder = write(tmp_path / "folder", eos_token=token)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": generation}))
    (folder / "config.json").write_text(json.dumps({"eos_token_id": config}))
    assert read_text_parts(folder)[0].eos_ids == ends


def test_no_end_within_the_vocabulary(tmp_path: Path) -> None:
    folder = write(tmp_path / "folder")
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [9999, 10000]}))
    with pytest.raises(TokenizerError, match="outside the vocabulary"):
        read_text_parts(folder)

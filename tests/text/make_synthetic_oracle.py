"""Makes small vocabularies and asks llama.cpp's server how it cuts the odd strings with them.

    python tests/text/make_synthetic_oracle.py LLAMA_SERVER

For SentencePiece two models are trained on text of this repository, by the `sentencepiece` package, which
only this script needs: one of words, one whose pieces go on after a space. For byte-level BPE a vocabulary is
trained without any pre-tokenizer, so that its merges join across every border a pre-tokenizer may set; it is
asked under each name of the table. Run from the repository root, after make_oracle.py.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import sentencepiece
import tokenizers
from tokenizers import models, pre_tokenizers, trainers

from guessahead.text.pretokenizers import PRE_TOKENIZERS
from tests.text import store
from tests.text.make_oracle import _answers, _ids, _server
from tests.text.odd_strings import PROSE
from tests.text.synthetic_kinds import BPE, PIECES, bpe_metadata, pieces_metadata
from tests.text.writing import write_model

NUM_PIECES, NUM_TOKENS = 1800, 3000
CONTROL = ["<|im_start|>", "<|im_end|>"]


def _corpus() -> list[str]:
    files = sorted(Path("src/guessahead").glob("*.py")) + sorted(Path("docs").glob("*.md"))
    return [*(file.read_text() for file in files), *PROSE * 3]


def _train_pieces(folder: Path, name: str) -> list[tuple[str, float, int]]:
    """(piece, score, GGUF token type) of every id."""
    own = ["<tool_call>", "\n\n" if name == "words" else "    "]
    spans = {"split_by_whitespace": False, "split_by_number": False, "split_by_unicode_script": False}
    text = folder / "corpus.txt"
    text.write_text("\n".join(_corpus()))
    sentencepiece.SentencePieceTrainer.train(
        input=str(text),
        model_prefix=str(folder / name),
        model_type="bpe",
        vocab_size=NUM_PIECES,
        byte_fallback=True,
        character_coverage=0.995,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        minloglevel=2,
        control_symbols=CONTROL,
        user_defined_symbols=own,
        **({} if name == "words" else spans),
    )
    model = sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{name}.model"))

    def kind(token_id: int) -> int:
        if model.is_unknown(token_id):
            return 2
        if model.is_control(token_id):
            return 3
        if model.is_byte(token_id):
            return 6
        return 4 if model.id_to_piece(token_id) in own else 1

    return [(model.id_to_piece(i), model.get_score(i), kind(i)) for i in range(model.vocab_size())]


def _train_bpe(texts: list[str]) -> list[list[str]]:
    """Merges that know no borders."""
    trained = tokenizers.Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=NUM_TOKENS, initial_alphabet=alphabet, max_token_length=10, show_progress=False
    )
    trained.train_from_iterator([*texts, *_corpus()], trainer)
    return [list(pair) for pair in _merges_of(trained)]


def _merges_of(trained: tokenizers.Tokenizer) -> Iterator[tuple[str, str]]:
    """The merges of a trained BPE model."""
    for pair in json.loads(trained.to_str())["model"]["merges"]:
        yield tuple(pair) if isinstance(pair, list) else tuple(pair.split(" "))


def main(program: str) -> None:
    """Write the data files."""
    texts = store.load("oracle")["texts"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "model.gguf"
        for kind in PIECES:
            pieces = _train_pieces(folder, kind)
            write_model(path, pieces_metadata(kind, pieces))
            with _server(program, str(path)) as log:
                answers = _answers(log, texts)
            store.save(f"pieces_{kind}", {"pieces": pieces, **answers})
        merges = _train_bpe(texts)
        oracle: dict[str, Any] = {"merges": merges, "answers": {}}
        base: list[list[int]] = []
        for pre in PRE_TOKENIZERS:
            write_model(path, bpe_metadata(pre, merges))
            with _server(program, str(path)):
                ids = [_ids(text, special=False) for text in texts]
            base = base or ids
            differ = [[i, ids[i]] for i in range(len(ids)) if ids[i] != base[i]]
            oracle["answers"][pre] = base if ids is base else differ
            sys.stderr.write(f"{pre}: {len(differ)} unlike the first\n")
        store.save(BPE, oracle)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Training: it learns, it can be interrupted, and a head comes of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import guessahead as ga
from guessahead.errors import ModelError, ParameterError
from guessahead.heads.files import HeadFiles
from guessahead.training import data, fit, run
from guessahead.training.batch import to_bfloat16
from guessahead.training.data import Corpus
from guessahead.training.fit import Progress, Recipe, Teacher, Trainer
from guessahead.training.network import Head, Shape
from guessahead.training.target import Target
from tests.conftest import Report
from tests.support.tiny import NUM_TOKENS, tiny_gguf
from tests.training.making import LAYERS, WIDTH, made_text, stored

pytestmark = pytest.mark.reference

RECIPE = Recipe(epochs=1.0, time=64, batch=2, guesses=2)
VOCAB = 128
TOKENS = 16


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Few texts, and full steps from early on."""
    monkeypatch.setattr(run, "CHATS", 12)
    monkeypatch.setattr(data, "_HELD_OUT", 4)
    monkeypatch.setattr(fit, "_WARM", 1000)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_gguf(
        tmp_path_factory.mktemp("model") / "m.gguf", layers=4, format="Q8_0", head_scale=8.0
    ).path


@pytest.fixture(scope="module")
def lm(model: Path) -> ga.LanguageModel:
    return ga.load(model, threads=1, context=512)


@pytest.fixture(scope="module")
def target(model: Path) -> Target:
    return Target.load(model)


@pytest.fixture(scope="module")
def shards(lm: ga.LanguageModel, target: Target, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """What the model writes: a dozen chats."""
    told: list[int] = []
    store = run.store_of(target, tmp_path_factory.mktemp("data"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "CHATS", 12)
        paths = run.write_chats(lm, target, store, 1000, told.append)
        assert run.write_chats(lm, target, store, 1000, told.append) == paths
    assert told[0] == told[1] > 1000
    return paths


def trained(target: Target, shards: list[Path], places: run.Places, recipe: Recipe) -> list[Progress]:
    trainer, draft_ids = run.prepare(target, shards, places, recipe, VOCAB)
    return list(run.train(target, trainer, draft_ids, places, 1e9))


def made_up(folder: Path) -> tuple[Corpus, Teacher, Head]:
    """Texts in which each token has one that follows it; the target knows it, and the head has to learn it.

    What it is shown says which token stands at each position, and nothing of what follows.
    """
    rng = np.random.default_rng(0)
    after = rng.permutation(TOKENS)
    known, output = (rng.standard_normal((TOKENS, WIDTH)).astype(np.float32) for _ in range(2))
    texts = []
    for number in range(150):
        tokens = [*rng.integers(0, TOKENS, 3).tolist()]
        while len(tokens) < 20:
            tokens.append(int(after[tokens[-1]]) if rng.random() < 0.9 else int(rng.integers(0, TOKENS)))
        text = made_text(tokens[:3], tokens[3:], number)
        hidden = np.stack([known[tokens[:-1]], known[tokens[:-1]], output[after[tokens[:-1]]]], axis=1)
        texts.append(replace(text, hidden=to_bfloat16(hidden)))
    torch.manual_seed(0)
    shape = Shape(WIDTH, 2 * WIDTH, 4, 2, 8, LAYERS - 1, TOKENS, 1e-5, 10000.0)
    head = Head(shape, torch.from_numpy(known))
    teacher = Teacher(torch.ones(WIDTH), torch.from_numpy(output), torch.arange(TOKENS), 1e-5)
    return Corpus(stored(folder, [texts])), teacher, head


def test_it_learns(tmp_path: Path, report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus, teacher, head = made_up(tmp_path)
    recipe = Recipe(epochs=3.0, time=32, batch=2, guesses=3, rate=3e-3)
    trainer = Trainer(head, teacher, corpus, LAYERS - 1, recipe)
    losses: list[float] = []
    learn = trainer._learn
    monkeypatch.setattr(trainer, "_learn", lambda batch: losses.append(learn(batch)) or losses[-1])
    before, saved = trainer.agreement(99), []
    [last] = trainer.run(1e9, 99, lambda: saved.append(trainer.tokens))
    assert last.agreement is not None
    report(f"loss {losses[0]:.2f} -> {losses[-1]:.2f}, right {before} -> {last.agreement}")
    assert saved == [last.tokens]
    assert last.tokens >= trainer.goal == 3 * corpus.num_tokens
    assert np.mean(losses[-10:]) < np.mean(losses[:10]) - 1.0
    assert len(last.agreement) == 3
    for was, now in zip(before, last.agreement, strict=True):
        assert was < 0.3
        assert now > 0.8


def test_the_same_seed_gives_the_same_head(target: Target, shards: list[Path], tmp_path: Path) -> None:
    short, found = replace(RECIPE, epochs=0.3), []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        places = run.Places(tmp_path, tmp_path / name)
        trained(target, shards, places, replace(short, seed=seed))
        found.append((places.head / "model.safetensors").read_bytes())
    assert found[0] == found[1] != found[2]


def test_an_interrupted_training_goes_on(
    lm: ga.LanguageModel, target: Target, shards: list[Path], tmp_path: Path
) -> None:
    places = run.Places(tmp_path, tmp_path / "head")
    trainer, draft_ids = run.prepare(target, shards, places, RECIPE, VOCAB)
    for progress in run.train(target, trainer, draft_ids, places, 1e-9):
        if progress.tokens > 500:
            break
    again, same_ids = run.prepare(target, shards, places, RECIPE, VOCAB)
    assert again.tokens == trainer.tokens == progress.tokens
    assert np.array_equal(same_ids, draft_ids)
    assert all(np.array_equal(again.weights()[name], values) for name, values in trainer.weights().items())
    assert again.agreement(60) == progress.agreement
    assert HeadFiles.load(places.head).config.fingerprint == target.fingerprint
    last = list(run.train(target, again, draft_ids, places, 1e9))[-1]
    assert last.tokens >= again.goal
    head = lm.runner.engine.head(str(places.head))
    assert head is not None
    assert head.layers == run.fused_layers(4)
    assert np.array_equal(head.draft_ids, draft_ids)
    finished, _ = run.prepare(target, shards, places, RECIPE, VOCAB)
    assert list(run.train(target, finished, draft_ids, places, 1e9)) == []


def test_a_checkpoint_of_another_head_is_refused(target: Target, shards: list[Path], tmp_path: Path) -> None:
    places = run.Places(tmp_path, tmp_path / "head")
    trained(target, shards, places, replace(RECIPE, epochs=0.1))
    state = torch.load(places.checkpoint, weights_only=True)
    state["head"]["fc.weight"] = state["head"]["fc.weight"][:, :-1]
    torch.save(state, places.checkpoint)
    with pytest.raises(ParameterError, match="belongs to another head"):
        run.prepare(target, shards, places, RECIPE, VOCAB)


def test_files_of_the_user(lm: ga.LanguageModel, target: Target, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the quick brown fox jumps over the lazy dog; " * 40)
    [path] = run.read_files(lm, target, tmp_path / "data", [text])
    assert run.read_files(lm, target, tmp_path / "data", [text]) == [path]
    places = run.Places(tmp_path, tmp_path / "head")
    with pytest.raises(ParameterError, match="too little text to train on"):
        run.prepare(target, [path], places, RECIPE, VOCAB)
    for content, problem in ((b"\xff\xfe\x00", "not a text file"), (b"a", "too short to train on")):
        text.write_bytes(content)
        with pytest.raises(ParameterError, match=problem):
            run.read_files(lm, target, tmp_path / "data", [text])
    with pytest.raises(ParameterError, match="not a text file"):
        run.read_files(lm, target, tmp_path / "data", [tmp_path / "nowhere.txt"])


def test_too_little_text_is_refused_and_not_waited_for(
    target: Target, shards: list[Path], tmp_path: Path
) -> None:
    """Less than one step takes."""
    with pytest.raises(ParameterError, match="too little text to train on"):
        run.prepare(target, shards, run.Places(tmp_path, tmp_path), replace(RECIPE, batch=10_000), VOCAB)


def test_three_different_layers_are_fused() -> None:
    assert run.fused_layers(30) == (1, 14, 28)
    for num_layers in range(4, 40):
        low, middle, high = run.fused_layers(num_layers)
        assert 0 <= low < middle < high < num_layers - 1


def test_most_frequent() -> None:
    counts = np.array([3, 0, 9, 3, 3, 1], np.int32)
    assert run.most_frequent(counts, 3).tolist() == [0, 2, 3]
    assert run.most_frequent(counts, 99).tolist() == [0, 1, 2, 3, 4, 5]


def test_targets_of_which_no_head_is_made(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="a head requires 4 or more"):
        run.fused_layers(3)
    with pytest.raises(ModelError, match="which transform their logits"):
        Target.load(tiny_gguf(tmp_path / "m.gguf", "gemma2", format="F32").path)


def test_what_is_taken_from_the_target(target: Target, lm: ga.LanguageModel) -> None:
    assert target.fingerprint == lm.runner.engine.head_host.fingerprint  # type: ignore[attr-defined]
    assert target.embeddings.shape == target.output.shape == (NUM_TOKENS, 64)
    assert target.layer is not None

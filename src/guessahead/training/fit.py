"""The training loop: the head learns the target's distribution, several of its own guesses ahead."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import functional

from guessahead.training.data import Batch, Corpus
from guessahead.training.network import Head, Memory
from guessahead.types import Float32

_CHUNK: Final = 1024  # positions whose logits are in memory at a time
_FADE: Final = 0.8  # factor of the weight of each further guess (EAGLE-3)
_WARM: Final = 40_000  # tokens until the learning rate has its full size
_DECAY: Final = 0.4  # last part of the training, with a falling learning rate


@dataclass(frozen=True, slots=True)
class Recipe:
    """The settings of a training.

    epochs: passes over all texts. time, batch: tokens per window, windows per step. guesses: number of its
        own guesses ahead. seed: of weights and order. rate: of AdamW. (Larger steps, Muon, and a loss on the
        states themselves gained nothing: docs/log.md.)
    """

    epochs: float = 5.0
    time: int = 256
    batch: int = 2
    guesses: int = 3
    rate: float = 1e-3
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of a training. tokens: processed so far, repetitions included.

    loss: cross-entropy of the first guess, in nats, mean of the last steps.

    agreement: of guess 1, 2, ... with the target's greedy choice on held-out texts, if measured.
    """

    tokens: int
    loss: float
    seconds: float
    agreement: tuple[float, ...] | None = None


class Teacher:
    """The target's distribution over the head's vocabulary, from its last hidden state."""

    def __init__(self, norm: Tensor, output: Tensor, kept: Tensor, epsilon: float) -> None:
        """norm: float[width]. output: float[vocab, width]. kept: int64[n], the head's tokens."""
        self._norm, self._epsilon = norm, epsilon
        self._output = output.to(torch.bfloat16)
        self._kept_rows = self._output[kept]
        self.kept = kept

    def probabilities(self, hidden: Tensor) -> Tensor:
        """The probabilities of the head's tokens, bfloat16[..., n], normalised to a sum of 1."""
        return functional.linear(self._normed(hidden), self._kept_rows).float().softmax(-1).bfloat16()

    def choices(self, hidden: Tensor) -> Tensor:
        """The greedy choice of the whole vocabulary: [..., width] -> int64[...]."""
        return functional.linear(self._normed(hidden), self._output).argmax(-1)

    def _normed(self, hidden: Tensor) -> Tensor:
        return functional.rms_norm(hidden.float(), hidden.shape[-1:], self._norm, self._epsilon).bfloat16()


class _Divergence(torch.autograd.Function):
    """Cross-entropy of rows of logits with given probabilities, summed.

    Its gradient, softmax - probabilities, is computed in the forward pass, so that only one array of that
    size is kept.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, probabilities: Tensor) -> Tensor:
        logs = logits.log_softmax(-1, torch.float32)
        loss = -(logs * probabilities).sum()
        ctx.save_for_backward(logs.exp_().sub_(probabilities).to(logits.dtype))
        return loss

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return ctx.saved_tensors[0] * grads[0].to(ctx.saved_tensors[0].dtype), None


def _divergence(logits: Tensor, probabilities: Tensor) -> Tensor:
    loss: Tensor = _Divergence.apply(logits, probabilities)  # type: ignore[no-untyped-call]
    return loss


class Trainer:
    """A training, from its beginning or from a checkpoint."""

    def __init__(self, head: Head, teacher: Teacher, corpus: Corpus, layers: int, recipe: Recipe) -> None:
        """layers: hidden states that are fused; the corpus holds one more, the last, for the teacher.

        tokens: processed so far; goal: at the end of the training.
        """
        self._head, self._teacher, self._corpus = head, teacher, corpus
        self._layers, self._recipe = layers, recipe
        self._optimiser = torch.optim.AdamW(
            head.parameters(), lr=recipe.rate, betas=(0.9, 0.95), weight_decay=0.0
        )
        self.tokens = 0
        self.goal = int(recipe.epochs * corpus.num_tokens)
        self._seconds = 0.0
        self._epoch = 0

    def run(self, every: float, held_out: int, save: Callable[[], None]) -> Iterator[Progress]:
        """Train to the end; yields progress about twenty times between two measurements on held-out texts.

        every: seconds between measurements; a checkpoint is saved at each.
        """
        last_measured = last_told = perf_counter()
        losses: list[float] = []
        while self.tokens < self.goal:
            batches = self._corpus.epoch(
                self._recipe.seed + self._epoch, self._recipe.time, self._recipe.batch
            )
            for batch in batches:
                started = perf_counter()
                losses.append(self._learn(batch))
                self.tokens += batch.token_ids.numel()
                now = perf_counter()
                self._seconds += now - started
                ended = self.tokens >= self.goal
                if ended or now - last_measured > every:
                    agreement = self.agreement(held_out)
                    save()
                    yield Progress(self.tokens, _mean(losses), self._seconds, agreement)
                    losses, last_measured = [], perf_counter()
                    last_told = last_measured
                elif now - last_told > every / 20:
                    yield Progress(self.tokens, _mean(losses), self._seconds)
                    last_told = now
                if ended:
                    break
            self._epoch += 1

    def agreement(self, num_texts: int) -> tuple[float, ...]:
        """The share of held-out positions at which guesses 1, 1 to 2, ... equal the greedy choices."""
        right = torch.zeros(self._recipe.guesses)
        asked = torch.zeros(self._recipe.guesses)
        self._head.eval()
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            for batch in self._corpus.held_out(num_texts):
                truth = self._teacher.choices(batch.hidden[:, 1:, -1])
                for guess, (state, rows) in enumerate(self._states(batch)):
                    tokens = self._teacher.kept[self._head.logits(state[rows]).argmax(-1)]
                    right[guess] += (tokens == truth[rows]).sum()
                    asked[guess] += rows.sum()
        self._head.train()
        return tuple((right / asked.clamp(min=1)).tolist())

    def weights(self) -> dict[str, Float32]:
        """Matrices and norms by their names in `guessahead.heads.files`."""
        return {
            name.removesuffix(".weight"): values.detach().numpy().copy()
            for name, values in self._head.named_parameters()
        }

    def state(self) -> dict[str, Any]:
        """The state that `restore` needs to continue."""
        return {
            "head": self._head.state_dict(),
            "optimiser": self._optimiser.state_dict(),
            "tokens": self.tokens,
            "epoch": self._epoch,
            "seconds": self._seconds,
            "recipe": asdict(self._recipe),
        }

    def restore(self, state: dict[str, Any]) -> None:
        self._head.load_state_dict(state["head"])
        self._optimiser.load_state_dict(state["optimiser"])
        self.tokens, self._seconds = state["tokens"], state["seconds"]
        self._epoch = state["epoch"] + 1  # the rest of the epoch is skipped, not repeated

    def _learn(self, batch: Batch) -> float:
        """One step; returns the loss of the first guess."""
        self._set_rates()
        with torch.autocast("cpu", torch.bfloat16):
            probabilities = self._teacher.probabilities(batch.hidden[:, 1:, -1])
            total, first = torch.zeros(()), 0.0
            for guess, (state, rows) in enumerate(self._states(batch)):
                kept_state, kept_probabilities = state[rows], probabilities[rows]
                losses = [
                    _divergence(self._head.logits(a), b)
                    for a, b in zip(
                        torch.split(kept_state, _CHUNK), torch.split(kept_probabilities, _CHUNK), strict=True
                    )
                ]
                loss = sum(losses, torch.zeros(())) / max(len(kept_state), 1)
                total = total + loss * _FADE**guess
                if guess == 0:
                    first = float(loss.detach())
        total.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self._head.parameters(), 1.0)
        self._optimiser.step()
        self._optimiser.zero_grad(set_to_none=True)
        return first

    def _states(self, batch: Batch) -> Iterator[tuple[Tensor, Tensor]]:
        """Per guess: the states [batch, time - 1, width], and the mask of rows with a token to guess."""
        text, next_ids = batch.text[:, :-1], batch.token_ids[:, 1:]
        memory = Memory(text[:, :, None] == text[:, None, :])
        wanted = torch.zeros_like(text, dtype=torch.bool)
        wanted[:, :-1] = batch.wanted[:, 2:] & (batch.text[:, 2:] == batch.text[:, :-2])
        state = self._head.fuse(batch.hidden[:, :-1, : self._layers])
        for guess in range(self._recipe.guesses):
            state = self._head.step(state, next_ids, memory)
            rows = wanted.clone()
            rows[:, :guess] = False
            if guess:
                rows[:, guess:] &= text[:, guess:] == text[:, :-guess]
            yield state, rows
            state = state.roll(1, 1)

    def _set_rates(self) -> None:
        """Set the learning rate: warm-up, constant, then a decay to 0."""
        done = self.tokens / self.goal
        factor = min(1.0, (self.tokens + 1) / _WARM, (1 - done) / _DECAY + 0.01)
        for group in self._optimiser.param_groups:
            group["lr"] = self._recipe.rate * factor


def _mean(values: list[float]) -> float:
    return sum(values) / max(len(values), 1)

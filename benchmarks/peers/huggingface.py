"""transformers on torch: the GGUF file's weights, dequantised to float32."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.peers.base import Answer, NotInstalledError


class Transformers:
    name = "transformers"

    def __init__(self, model: Path, draft_model: Path | None, threads: int) -> None:
        os.environ.setdefault("TQDM_DISABLE", "1")
        try:
            torch: Any = import_module("torch")
            transformers: Any = import_module("transformers")
        except ImportError as error:
            raise NotInstalledError(
                f"{error.name} (pip install torch transformers accelerate gguf)"
            ) from None
        torch.set_num_threads(threads)
        transformers.logging.set_verbosity_error()
        transformers.utils.logging.disable_progress_bar()
        self.version = f"{transformers.__version__}, torch {torch.__version__}"
        self._torch, self._transformers = torch, transformers
        self._model = self._load(model)
        self._modes: dict[str, dict[str, Any]] = {
            "plain": {},
            "prompt-lookup": {"prompt_lookup_num_tokens": 5},
        }
        if draft_model is not None:
            self._modes["assistant"] = {"assistant_model": self._load(draft_model)}
        self.modes: Sequence[str] = list(self._modes)

    def generate(self, mode: str, prompt_ids: Sequence[int], num_tokens: int) -> Answer:
        ids = self._torch.tensor([list(prompt_ids)])
        clock = _Clock(len(prompt_ids))
        started = perf_counter()
        output = self._model.generate(
            ids,
            attention_mask=self._torch.ones_like(ids),
            max_new_tokens=num_tokens,
            min_new_tokens=num_tokens,
            do_sample=False,
            streamer=clock,
            **self._modes[mode],
        )
        ended = perf_counter()
        token_ids = tuple(output[0, len(prompt_ids) :].tolist())
        # Assisted decoding hands out several tokens at first; count them as arriving at their mean pace.
        rest = (ended - clock.first) * (num_tokens - 1) / max(num_tokens - clock.num_first, 1)
        return Answer(token_ids, clock.first - started, rest)

    def close(self) -> None:
        """The models go with the process."""

    def _load(self, path: Path) -> Any:
        load = self._transformers.AutoModelForCausalLM.from_pretrained
        model = load(path.parent, gguf_file=path.name, dtype=self._torch.float32).eval()
        config = model.generation_config  # greedy, whatever the file recommends
        config.temperature = config.top_p = config.top_k = None
        config.repetition_penalty = 1.0
        return model


class _Clock:
    """A streamer that notes when the first tokens came, and how many."""

    def __init__(self, num_prompt: int) -> None:
        self._skipped_prompt = False
        self.first = 0.0
        self.num_first = 0

    def put(self, value: Any) -> None:
        if not self._skipped_prompt:
            self._skipped_prompt = True
        elif not self.num_first:
            self.first, self.num_first = perf_counter(), value.numel()

    def end(self) -> None:
        """Nothing is held back."""

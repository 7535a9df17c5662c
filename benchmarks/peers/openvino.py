"""OpenVINO GenAI, which reads the GGUF file itself."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.peers.base import Answer, NotInstalledError


class OpenVINO:
    name = "OpenVINO GenAI"

    def __init__(self, model: Path, threads: int) -> None:
        try:
            openvino: Any = import_module("openvino")
            openvino_genai: Any = import_module("openvino_genai")
        except ImportError as error:
            raise NotInstalledError(f"{error.name} (pip install openvino-genai)") from None
        self.version = openvino_genai.__version__
        self._openvino, self._genai = openvino, openvino_genai
        settings = {"INFERENCE_NUM_THREADS": threads}
        self._pipelines = {
            "plain": openvino_genai.LLMPipeline(str(model), "CPU", **settings),
            "prompt-lookup": openvino_genai.LLMPipeline(str(model), "CPU", prompt_lookup=True, **settings),
        }
        self.modes: Sequence[str] = list(self._pipelines)

    def generate(self, mode: str, prompt_ids: Sequence[int], num_tokens: int) -> Answer:
        config = self._genai.GenerationConfig()
        config.max_new_tokens = config.min_new_tokens = num_tokens
        config.ignore_eos = True
        config.do_sample = False
        if mode == "prompt-lookup":
            config.num_assistant_tokens, config.max_ngram_size = 5, 3
        ids = self._openvino.Tensor(np.array([prompt_ids], np.int64))
        inputs = self._genai.TokenizedInputs(
            ids, self._openvino.Tensor(np.ones((1, len(prompt_ids)), np.int64))
        )
        started = perf_counter()
        result: Any = self._pipelines[mode].generate(inputs, config)
        total = perf_counter() - started
        first = result.perf_metrics.get_ttft().mean / 1e3
        return Answer(tuple(result.tokens[0]), first, total - first)

    def close(self) -> None:
        self._pipelines.clear()

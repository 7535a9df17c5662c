"""The package works without the compiled module: an engine of another kind runs."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
sys.modules["guessahead._native"] = None  # an import of it fails
import numpy as np
import guessahead as ga
import guessahead.cli, guessahead.controller.controller, guessahead.measure.texts, guessahead.report
from guessahead.drafters import registry
from guessahead.drafters.base import DrafterResources
from guessahead.runners.solo import SoloRunner
from tests.support.fake_text import FakeTemplate, letters
from tests.support.fakes import ScriptEngine

tokenizer = letters(24)
lm = ga.LanguageModel(SoloRunner(ScriptEngine([1, 2, 3, 4, 5], 24), tokenizer), tokenizer, None, "script")
plain = lm.generate([0], max_tokens=20, drafter="none")
guessed = lm.generate([0], max_tokens=20, drafter="prompt-lookup", gamma=4)
assert guessed.token_ids == plain.token_ids
assert guessed.stats.num_accepted > 5
print(plain.text)
"""


def test_the_compiled_module_is_needed_by_its_engine_only() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "CDEFBCDEFBCDEFBCDEFB\n"

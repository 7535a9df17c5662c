"""Zig's C++ compiler for ARM under the options of GCC, which it spells otherwise: a compiler for CMake."""

from __future__ import annotations

import os
import sys

OPTIONS = {"-march=armv8.2-a+dotprod": "-mcpu=generic+v8_2a+dotprod"}

if __name__ == "__main__":
    command = [sys.executable, "-m", "ziglang", "c++", "-target", "aarch64-linux-musl"]
    os.execv(sys.executable, [*command, *(OPTIONS.get(option, option) for option in sys.argv[1:])])

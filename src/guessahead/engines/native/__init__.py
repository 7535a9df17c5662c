"""The CPU engine: Python reads the checkpoint and describes a pass, C++ (guessahead._native) runs it."""

from guessahead.engines.native.engine import NativeEngine, NativeSequence

__all__ = ["NativeEngine", "NativeSequence"]

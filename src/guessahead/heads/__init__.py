"""Draft heads: a layer or two that guess from the target's own hidden states.

    files.py   what a head is on disk, and which one belongs to a model
    native.py  its passes, over the native engine's kernels

Made by `guessahead train` (see `guessahead.training`), used by the drafter `head`.
"""

from guessahead.engines.native.head import NativeHead, load_head

__all__ = ["NativeHead", "load_head"]

"""Measuring: what `guessahead bench`, `demo` and `generate --compare` have in common.

comparison.py   one request plain and guessed ahead: tokens, times, prediction
workload.py     the prompts
lock.py         one timing run at a time
provenance.py   on what, when and with what a figure was measured
peaks.py        what the machine can do, and the least time that a pass can take
drafters.py     `guessahead bench`; kernels.py: `bench kernels`; passes.py: `bench passes`
"""

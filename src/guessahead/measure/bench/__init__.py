"""Benchmarks: the measurements behind `guessahead bench`, `demo` and `generate --compare`.

comparison.py   one request with plain decoding and with guessing: tokens, times, prediction
workload.py     the prompts
lock.py         one timing run at a time
provenance.py   machine, time and versions of a measurement
peaks.py        peak rates of the machine, and the minimum time of a pass
drafters.py     `guessahead bench`; kernels.py: `bench kernels`; passes.py: `bench passes`
"""

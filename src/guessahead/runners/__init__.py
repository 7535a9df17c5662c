"""Runners: they turn requests into steps, the steps of one or more sequences into passes, and return chunks.

Reading order: base (`turn`, the body of every loop), solo (one request at a time, and the runner that makes
its drafter), prefix (the cache that a session keeps from one request to the next).
"""

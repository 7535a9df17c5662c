"""The algorithm: what one step of speculative decoding runs, at any number of guesses. One evening to read.

Reading order: types/ and protocols.py of the package; then sampling (the definition of `choose`; exact_math
is its arithmetic), tree (drafts as parents), verify (the rule of equality), rejection (the classic rule),
state (a generation between steps), step (propose, verify, commit), stats and trace (what is counted and
recorded). The loop around it is `runners.base.turn`.
"""

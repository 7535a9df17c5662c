"""How much to guess: measured costs of passes against learned probabilities of guesses, step by step.

Reading order: base (a fixed number of guesses), controller (the rule of expected gain), members and
probability (what is known of each drafter, and the guesses of one step), pass_costs and pass_curve (what
passes of m rows cost, as learned and as measured), running (running means); store and saved keep costs and
settings.
"""

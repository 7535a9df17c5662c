"""How much to guess: measured costs of passes against learned probabilities of guesses, step by step.

Reading order: base (a fixed number of guesses), controller (the rule of expected gain), asking and stopping
(which drafter is asked, and until when), members and probability (what is known of each drafter), pass_costs
and running (what steps take), surplus and reasons (what was expected beside what came); store and saved keep
costs and settings.
"""

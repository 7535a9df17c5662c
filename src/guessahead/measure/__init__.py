"""Measurements: how often guesses are right, the costs of passes, and the speed that follows from both.

Reading order: formulas (tau, speed-up, which gamma), teacher (a given text as steps), texts and text_result
(acceptance on texts), tune (the best setting for a machine). bench is `guessahead bench`.
"""

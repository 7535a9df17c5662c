"""Grammars that the output must follow, through llguidance: JSON schemas, regular expressions, Lark, ...

`compiling.py` makes a constraint for one generation, `constraint.py` is its state, `vocabulary.py` describes
the model's tokens to llguidance, `schemas.py` makes schemas from Python types and objects from answers.
"""

from guessahead.grammar.compiling import constraint_for

__all__ = ["constraint_for"]

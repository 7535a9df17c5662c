"""The exceptions that guessahead raises on purpose.

    GuessaheadError
    ├── InputError            the caller can correct it: the CLI exits with 2, the server answers 400
    │   ├── ParameterError    a setting outside its range, or two that exclude each other
    │   ├── ModelError        a checkpoint that cannot be used: missing, damaged, unsupported
    │   │   └── NotFiniteError    a model that computes numbers that are NaN or infinite
    │   ├── TokenizerError    an unknown tokenizer kind, or two models whose tokenizers differ
    │   ├── PromptError       an empty prompt, or one that does not fit into the context
    │   └── GrammarError      a grammar that cannot be used, or that no token of the model can continue
    └── StateError            a call that the object's state does not allow (a bug in the calling code)

A message is one line: the problem, and what to do about it.
"""


class GuessaheadError(Exception):
    """Base of all errors of this package."""


class InputError(GuessaheadError):
    """The request cannot be carried out; the message gives the reason in one line."""


class ParameterError(InputError, ValueError):
    """A parameter is out of range, of the wrong type, or contradicts another."""


class ModelError(InputError):
    """A checkpoint is missing, damaged or of a kind that is not supported."""


class NotFiniteError(ModelError):
    """A model computes numbers that are NaN or infinite, so it chooses no token."""


class TokenizerError(InputError):
    """A tokenizer is of an unknown kind, or two models do not share one."""


class PromptError(InputError, ValueError):
    """The prompt is empty or leaves no room in the context."""


class GrammarError(InputError, ValueError):
    """A grammar cannot be used, or no token of the model can continue the text under it."""


class StateError(GuessaheadError, RuntimeError):
    """A method was called in a state that does not allow it."""


class ModelWarning(UserWarning):
    """A checkpoint has a setting that is ignored, as in the libraries that wrote it, or runs with less."""

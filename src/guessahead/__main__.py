"""`python -m guessahead` is the command line."""

from guessahead.cli import main

main()

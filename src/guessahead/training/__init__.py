"""A draft head for any model, distilled from the model itself.

    chats.py     the model writes chats: user turns and answers
    batch.py     many texts at once through the native engine, hidden states kept
    shards.py    what was written, on disk, for this run and later ones
    network.py   the head as a torch module (torch is needed from here on)
    fit.py       training, with checkpoints, progress and agreement on held-out text
    export.py    files: ours, and the layout that vLLM's `speculators` read

`guessahead train` runs them in this order; `guessahead.heads` uses the result.
"""

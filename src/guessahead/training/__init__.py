"""Training of a draft head for any model, by distillation from the model itself.

    chats.py     the model writes chats: user turns and answers
    batch.py     many texts at once through the native engine, with their hidden states
    shards.py    these texts on disk, for this run and later ones
    target.py    the model's own weights that training needs
    data.py      shards -> batches (torch is needed from here on)
    network.py   the head as a torch module
    fit.py       training, with progress and agreement on held-out text
    export.py    the files of a head; speculators.py: those that vLLM reads

run.py, behind `guessahead train`, runs them in this order; `guessahead.heads` uses the result.
"""

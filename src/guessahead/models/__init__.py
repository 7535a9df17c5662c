"""Names to loaded parts: what a user calls a model becomes a runner, a tokenizer and a chat template.

Reading order: load, then catalogue, download and sources (models that are fetched), convert and
lower_precision (the same weights in other formats), memory (what loading takes). gguf and folders read the
two kinds of model files.
"""

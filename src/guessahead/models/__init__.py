"""Loading models: the name of a model is resolved to a runner, a tokenizer and a chat template.

Reading order: load, then catalogue, download and sources (fetching models), convert and lower_precision (the
same weights in other formats), memory (memory needs). gguf and folders read the two kinds of model files.
"""

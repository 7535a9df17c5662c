"""Loading models: the name of a model is resolved to an engine, a tokenizer and a chat template.

Reading order: load, then catalogue, download, sources and hub (fetching models), convert and lower_precision
(the same weights in other formats), memory (memory needs).
"""

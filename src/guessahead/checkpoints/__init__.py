"""Model files on disk, read alike whatever their kind: GGUF files, and folders of the Hugging Face hub.

Nothing here runs a model or downloads one. Reading order: gguf, then folders, which are presented as GGUF.
"""

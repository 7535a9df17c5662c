"""Model folders as Hugging Face's libraries write them: config.json, safetensors files, tokenizer.json.

`ModelFolder` presents a folder's metadata and tensors by GGUF's names, so that the engine loads it like a
GGUF file. Reading order: folder, config with settings and scaling (config.json), weights with names (the
tensors). text/folder_tokenizer.py reads the tokenizer and chat template.
"""

from guessahead.checkpoints.folders.folder import ModelFolder

__all__ = ["ModelFolder"]

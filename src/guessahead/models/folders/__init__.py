"""Model folders as Hugging Face's libraries write them: config.json, safetensors files, tokenizer.json.

`ModelFolder` presents a folder's metadata and tensors by GGUF's names, so that the engine loads it like a
GGUF file; `read_text_parts` reads its tokenizer and chat template; `snapshot` downloads a folder. Reading
order: folder, config with settings and scaling (config.json), weights with names (the tensors), hub.
"""

from guessahead.models.folders.folder import ModelFolder
from guessahead.models.folders.hub import snapshot
from guessahead.text.folder_tokenizer import read_text_parts

__all__ = ["ModelFolder", "read_text_parts", "snapshot"]

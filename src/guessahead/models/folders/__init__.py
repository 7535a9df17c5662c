"""Model folders as Hugging Face's libraries write them: config.json, safetensors files, tokenizer.json.

`ModelFolder` offers a folder's numbers and tensors under GGUF's names, so that the engine loads it as it
loads a GGUF file; `read_text_parts` makes its tokenizer and chat template; `snapshot` fetches a folder.
"""

from guessahead.models.folders.folder import ModelFolder
from guessahead.models.folders.hub import snapshot
from guessahead.text.folder_tokenizer import read_text_parts

__all__ = ["ModelFolder", "read_text_parts", "snapshot"]

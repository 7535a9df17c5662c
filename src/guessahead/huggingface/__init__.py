"""Model folders as Hugging Face's libraries write them: config.json, safetensors files, tokenizer.json.

`ModelFolder` offers a folder's numbers and tensors under GGUF's names, so that the engine loads it as it
loads a GGUF file; `read_text_parts` makes its tokenizer and chat template; `snapshot` fetches a folder.
"""

from guessahead.huggingface.folder import ModelFolder
from guessahead.huggingface.hub import snapshot
from guessahead.huggingface.text import read_text_parts

__all__ = ["ModelFolder", "read_text_parts", "snapshot"]

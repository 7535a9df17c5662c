"""Other engines on the same prompts and GGUF file, for as many tokens, interleaved with ours."""

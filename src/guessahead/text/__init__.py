"""Strings to tokens and back.

Reading order: tokenizer (encode and decode; pretokenizers, vocabulary and sentencepiece are its parts),
folder_tokenizer (the same from the files of a model folder), stream (tokens to text as they are generated,
and stop strings), chat_template (messages to a prompt, rendered in safe_template), retokenize (text between
two tokenizers).
"""

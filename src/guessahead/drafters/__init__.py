"""Drafters: the methods that guess the next tokens, one file each. None of them can change a text.

Reading order: base (what a drafter is), prompt_lookup (the simplest one, to copy from), suffix with
suffix_texts, draft_model and text_draft on model_base, self_draft, head, portfolio (several at once); ranking
and growth are what drafters with a model share; registry lists them by name.
"""

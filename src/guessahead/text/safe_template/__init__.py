"""Chat templates, which are programs that come with a model, run in a sandbox with limits (budget)."""

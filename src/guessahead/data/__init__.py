"""Package data: the model catalogue (models.toml) and the demo prompts (workload.jsonl)."""

"""Draft heads as files: their format, and where they are found. Their passes live with each engine."""

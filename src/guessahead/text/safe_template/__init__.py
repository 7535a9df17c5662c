"""A sandbox for chat templates, which are programs that come with a model and are not trusted.

Reading order: sandbox (what a template can use), budget (the limits on its work and its output).
"""

"""A sandbox for chat templates, which are programs that come with a model and are not trusted.

`SafeTemplate` is all that the rest of the package uses. Reading order: template (it, and its errors),
sandbox (what a template can use), budget (the limits on its work and its output).
"""

from guessahead.text.safe_template.template import SafeTemplate

__all__ = ["SafeTemplate"]

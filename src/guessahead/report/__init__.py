"""Traces as a page: who guessed what, what was kept, and what it gained.

trace.py    the file that `guessahead generate --trace` writes, and reading it back
tokens.py   tokens to text and to HTML, however hostile
tables.py   the figures
charts.py   steps and progress as SVG
page.py     one self-contained page; style.css and script.js go into it
"""

from guessahead.report.page import render
from guessahead.report.trace import Trace, parse_trace, read_trace, trace_document

__all__ = ["Trace", "parse_trace", "read_trace", "render", "trace_document"]

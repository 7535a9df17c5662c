"""Reports: traces as an HTML page that shows every guess, its drafter, and the gain.

trace.py    the trace file of `guessahead generate --trace`: writing and reading
tokens.py   tokens to text and to safe HTML
tables.py   the figures
charts.py   steps and progress as SVG
page.py     the self-contained page, with style.css and script.js in it
measured.py alpha and costs from a trace, for `guessahead predict`
"""

from guessahead.report.page import render
from guessahead.report.trace import Trace, parse_trace, read_trace, trace_document

__all__ = ["Trace", "parse_trace", "read_trace", "render", "trace_document"]

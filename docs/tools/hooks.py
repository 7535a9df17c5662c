"""What mkdocs calls: adds the page that is made from docstrings."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files


def on_files(files: Files, config: Any) -> Files:
    """Before the pages are read."""
    files.append(File.generated(config, "api.md", content=_api_page()))
    return files


def _api_page() -> str:
    path = Path(__file__).parent / "api_reference.py"
    spec = importlib.util.spec_from_file_location("api_reference", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page: str = module.page()
    return page

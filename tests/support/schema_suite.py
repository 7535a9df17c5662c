"""The public JSON Schema test suite, as the source archive of the `jsonschema` package carries it."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

PACKAGE = "jsonschema==4.26.0"
SHA256 = "0c26707e2efad8aa1bfc5b7ce170f3fccc2e4918ff85989ba9ffa9facb2be326"
DRAFT = "draft2020-12"
# Its patterns are those of ECMAScript, where only ASCII letters are letters; the validator has those
# of Python.
LEFT_OUT = "ecmascript-regex.json"


def suite_schemas() -> list[dict[str, Any]]:
    """Every schema of the draft that is an object, in the order of the files."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
        subprocess.run([*command, "--dest", folder, PACKAGE], check=True, stdout=subprocess.DEVNULL)
        [archive] = Path(folder).glob("*.tar.gz")
        assert hashlib.sha256(archive.read_bytes()).hexdigest() == SHA256, "not the archive that was tested"
        with tarfile.open(archive) as files:
            names = [
                name for name in files.getnames() if f"/json/tests/{DRAFT}/" in name and LEFT_OUT not in name
            ]
            groups = [json.load(files.extractfile(name)) for name in sorted(names) if name.endswith(".json")]  # type: ignore[arg-type]
    return [case["schema"] for group in groups for case in group if isinstance(case["schema"], dict)]

